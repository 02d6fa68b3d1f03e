/* What is wrong with the page in sight, as [{rule, at, why}]: evaluated in the page by tests/e2e/page_checks.py. */
(async () => {
  const found = [];
  const name = (node) => {
    const own = (one) => one.localName + (one.id ? `#${one.id}` : [...one.classList].map((word) => `.${word}`).join(""));
    return [node.parentElement, node].filter(Boolean).map(own).join(" > ");
  };
  const report = (rule, node, why) => found.push({ rule, at: name(node), why: why.replace(/\s+/g, " ").slice(0, 80) });
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const widest = [...document.body.querySelectorAll("*")].reduce((a, b) =>
      a.getBoundingClientRect().right >= b.getBoundingClientRect().right ? a : b,
    );
    report("overflow", widest, `the page is ${root.scrollWidth} px wide in ${root.clientWidth}`);
  }

  const excess = root.scrollHeight - root.clientHeight;
  if (excess > 0 && excess <= 8) report("scroll bar", root, `for ${excess} px`);

  /* Texts: what an ancestor hides of a text is cut off, unless a title or tip has it in full. */
  const seen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const styles = new Map();
  const style = (node) => styles.get(node) ?? styles.set(node, getComputedStyle(node)).get(node);
  const hides = (value) => value === "hidden" || value === "clip";
  const SLACK = 1.5; // px: glyphs may stand out of their line box
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const cut = new Set();
  while (walker.nextNode()) {
    const text = walker.currentNode,
      host = text.parentElement;
    if (!text.data.trim() || !seen(host) || host.closest(".sr, .skip-link, svg, script, style, option")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    /* A letter or two a line: what stands beside it took the room. */
    if (box.width < 20 && text.data.trim().length > 8 && !host.closest("textarea"))
      report("squeezed", host, text.data.trim());
    for (let node = host; node && node !== document.body; node = node.parentElement) {
      const { overflowX, overflowY, position } = style(node);
      if (/auto|scroll/.test(overflowX + overflowY) && node !== host) break;
      const hull = node.getBoundingClientRect();
      const wide = hides(overflowX) && (box.right > hull.right + SLACK || box.left < hull.left - SLACK);
      const tall = hides(overflowY) && (box.bottom > hull.bottom + SLACK || box.top < hull.top - SLACK);
      if ((wide || tall) && !cut.has(node) && !text.parentElement.closest("[title], [data-tip]")) {
        cut.add(node);
        report("cut off", node, text.data.trim());
      }
      const isCell = /^(TD|TH|BUTTON)$/.test(node.tagName) && !hides(overflowX);
      if (isCell && !cut.has(node) && (box.right > hull.right + SLACK || box.left < hull.left - SLACK)) {
        cut.add(node);
        report("stands out", node, text.data.trim());
      }
      if (position === "fixed") break;
    }
  }

  for (const card of document.querySelectorAll(".card, .cell, .panel")) {
    if (!seen(card) || card.querySelector("canvas, [data-trend], input, select, textarea, button, .btn")) continue;
    const heads = card.querySelectorAll(".card__head, h1, h2, h3");
    const words = [...heads].reduce((left, head) => left - head.innerText.length, card.innerText.trim().length);
    if (words <= 0) report("empty card", card, card.innerText);
  }
  const FRAMES = 30;
  const isBlank = (canvas) => {
    const { width, height } = canvas;
    if (!seen(canvas) || !width || !height) return false;
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
    return pixels.every((pixel) => pixel === pixels[0]);
  };
  /* A round's figures bring new canvases, which are painted in the next frame. */
  for (let frame = 0; frame < FRAMES && [...document.querySelectorAll("canvas")].some(isBlank); frame++)
    await new Promise(requestAnimationFrame);
  for (const canvas of document.querySelectorAll("canvas"))
    if (isBlank(canvas)) report("blank chart", canvas, canvas.getAttribute("aria-label") ?? "");
  return found;
})();
