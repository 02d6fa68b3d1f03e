/* Ctrl-K: jump to a topic, group, broker, plan, job, message or page. Pages are known at once, the rest comes from
   /c/<cluster>/jump, which finds only what this person may open. */
(function () {
  "use strict";
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input"),
    list = dialog.querySelector("[role=listbox]"),
    url = dialog.dataset.jump;
  const pages = [...document.querySelectorAll(".sidebar a[data-key]")].map((a) => ({
    kind: gettext("Pages"),
    icon: a.dataset.icon,
    name: a.dataset.name,
    url: a.getAttribute("href"),
    hint: "g " + a.dataset.key,
  }));
  let asked = 0,
    isShort = false; // words were searched for, and no name has them so far

  function mark(name, words) {
    const at = words ? name.toLowerCase().indexOf(words) : -1,
      e = Tide.escape;
    if (at < 0) return e(name);
    const end = at + words.length;
    return `${e(name.slice(0, at))}<mark>${e(name.slice(at, end))}</mark>${e(name.slice(end))}`;
  }
  function render(items, words, trouble = "") {
    let kind = null,
      html = "";
    items.forEach((item, i) => {
      if (item.kind !== kind) html += `<li class="head" role="presentation">${Tide.escape((kind = item.kind))}</li>`;
      html +=
        `<li role="option" id="jump-${i}" data-url="${Tide.escape(item.url)}" aria-selected="${i === 0}">` +
        `<svg class="icon" aria-hidden="true"><use href="#i-${Tide.escape(item.icon)}"/></svg>` +
        `<span>${mark(item.name, words)}</span><span class="hint">${Tide.escape(item.hint || "")}</span></li>`;
    });
    if (trouble) html += `<li class="head" role="presentation">${Tide.escape(trouble)}</li>`;
    const none = gettext("No match. Any part of a name matches; case is ignored.");
    list.innerHTML = html || `<li class="head" role="presentation">${none}</li>`;
    input.setAttribute("aria-activedescendant", items.length ? "jump-0" : "");
  }
  async function search() {
    const words = input.value.trim().toLowerCase(),
      mine = ++asked;
    const here = pages.filter((page) => page.name.toLowerCase().includes(words));
    if (!words || !url) return render(here, words);
    let found = [],
      trouble = "";
    try {
      const answer = await fetch(`${url}?q=${encodeURIComponent(input.value.trim())}`, {
        headers: { Accept: "application/json" },
      });
      if (answer.ok) found = (await answer.json()).items;
      else
        trouble = Tide.text(gettext("The console answered %(status)s; only pages are searched."), {
          status: answer.status,
        });
    } catch {
      trouble = gettext("The console does not answer; only pages are searched.");
    }
    if (mine !== asked) return;
    isShort = !found.length;
    render([...found, ...here], words, trouble);
  }
  /* Names appear with a round, the first ones with the first: what was not found then may be there now. */
  const searchAgain = () => {
    if (dialog.open && isShort && input.value.trim()) search();
  };
  function move(step) {
    const options = [...list.querySelectorAll("[role=option]")];
    const now = options.findIndex((o) => o.getAttribute("aria-selected") === "true"),
      next = options[Math.max(0, Math.min(options.length - 1, now + step))];
    options.forEach((o) => o.setAttribute("aria-selected", o === next));
    next?.scrollIntoView({ block: "nearest" });
    if (next) input.setAttribute("aria-activedescendant", next.id);
  }
  const go = (option) => {
    if (option) location.href = option.dataset.url;
  };

  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 80);
  });
  input.addEventListener("keydown", async (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    }
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      await search();
      go(list.querySelector('[aria-selected="true"]'));
    }
  });
  list.addEventListener("click", (event) => go(event.target.closest("[role=option]")));
  Tide.palette = {
    open() {
      if (dialog.open) return;
      dialog.showModal();
      input.value = "";
      isShort = false;
      render(pages, "");
      input.focus();
    },
  };
  // live.js stands below this script
  addEventListener("DOMContentLoaded", () => {
    const { cluster } = document.documentElement.dataset;
    if (cluster && url) Tide.live.on(`c/${cluster}/collector`, searchAgain);
  });
})();
