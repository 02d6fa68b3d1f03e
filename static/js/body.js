/* Bodies that are JSON (pre[data-json]): names and values in colours, objects and lists that fold. The lines are the
   server's, indented by two, so a body that is cut reads as well. The text stays what it was: it copies whole. */
(function () {
  "use strict";
  const LINES_MAX = 5_000; // beyond, the body stays plain text
  const LONG_BODY = 60,
    LONG_BLOCK = 12; // lines; in a long body, long blocks inside of others begin folded
  const TOKEN = /"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*|\b(?:true|false|null)\b/g;

  function kind(token, isName) {
    if (isName) return "name";
    if (token === '"•••"') return "masked";
    if (token[0] === '"') return "text";
    return /^[-\d]/.test(token) ? "number" : "word";
  }
  /* One line as spans, and what stands between them as text. */
  function coloured(line) {
    const parts = [];
    let last = 0;
    for (const found of line.matchAll(TOKEN)) {
      const token = found[0].slice(0, found[0].length - (found[1]?.length ?? 0));
      const span = Object.assign(document.createElement("span"), {
        className: `json-${kind(token, found[1] !== undefined)}`,
        textContent: token,
      });
      parts.push(line.slice(last, found.index), span);
      last = found.index + token.length;
    }
    parts.push(line.slice(last));
    return parts;
  }
  const indent = (line) => line.length - line.trimStart().length;

  /* A block: its first line with a button, what folds, and how many lines that is. */
  function open(host, lines, at, end, isLong) {
    const line = lines[at],
      block = document.createElement("span"),
      button = Object.assign(document.createElement("button"), { type: "button", className: "json-fold" }),
      isFolded = isLong && indent(line) > 0 && end - at > LONG_BLOCK;
    button.setAttribute("aria-expanded", !isFolded);
    button.setAttribute("aria-label", gettext("Fold or unfold"));
    block.className = "json-block";
    block.hidden = isFolded;
    const more = document.createElement("span");
    more.className = "json-more";
    more.dataset.more = Tide.text(ngettext("… %(number)s line …", "… %(number)s lines …", end - at - 1), {
      number: end - at - 1,
    });
    host.append(button, ...coloured(line), block, more);
    return block;
  }
  function paint(pre) {
    const lines = pre.textContent.split("\n");
    if (lines.length > LINES_MAX) return;
    const isLong = lines.length > LONG_BODY,
      made = document.createDocumentFragment();
    fill(made, lines, 0, lines.length, isLong);
    pre.replaceChildren(made);
    pre.classList.add("json");
  }
  /* Lines of one block, begin to end; blocks inside of it first find their last line, the next one as far left. */
  function fill(host, lines, begin, end, isLong) {
    for (let at = begin; at < end; at += 1) {
      if (at > 0) host.append("\n");
      if (!/[[{]$/.test(lines[at])) {
        host.append(...coloured(lines[at]));
        continue;
      }
      let last = at + 1;
      while (last < end && indent(lines[last]) > indent(lines[at])) last += 1;
      const block = open(host, lines, at, last, isLong);
      fill(block, lines, at + 1, last, isLong);
      at = last;
      if (last === end) continue; // a cut body: the block does not end
      const close = lines[last];
      block.append("\n", " ".repeat(indent(close)));
      host.append(...coloured(close.trimStart()));
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest(".json-fold");
    if (!button) return;
    let block = button.nextElementSibling;
    while (!block.classList.contains("json-block")) block = block.nextElementSibling;
    block.hidden = !block.hidden;
    button.setAttribute("aria-expanded", !block.hidden);
  });

  Tide.bodies = (root) => {
    for (const pre of root.querySelectorAll("pre[data-json]:not(.json)")) paint(pre);
  };
  Tide.bodies(document);
})();
