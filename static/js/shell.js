/* Behaviour of the shell and of the parts: theme, menus, palette, keys, popovers, ages, typed confirmation.
   Event delegation only: markup names what it does with data-do. */
(function () {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;

  /* ---- time: the server's clock, in the zone of this browser (kept in a cookie so that first paint has it) ---- */
  const visit = performance.getEntriesByType("navigation")[0];
  const arrived = visit?.responseStart ? performance.timeOrigin + visit.responseStart : Date.now();
  // A page that was fetched ahead arrived before it was opened: its time is no measure.
  const skew = Tide.isAhead ? Tide.keptSkew() : Number(root.dataset.now || arrived) - arrived;
  try {
    sessionStorage.setItem("skew", skew);
  } catch {
    /* the next page measures its own */
  }
  Tide.now = () => Date.now() + skew;
  Tide.BY_TIMER = { "X-Tidemark-Timer": "1" }; // of requests by a timer: they do not keep a session alive
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  document.cookie = `zone=${zone};path=/;max-age=31536000;samesite=lax`;
  const MOMENTS = {
    age: (ms) => Tide.age(Tide.now() - ms),
    left: (ms) => (ms > Tide.now() ? Tide.age(ms - Tide.now()) : gettext("over")),
    clock: (ms) => Tide.clock(ms),
    clock_ms: (ms) => Tide.clock(ms, true),
    moment: (ms) => Tide.moment(ms, Tide.now()),
    moment_ms: (ms) => Tide.moment(ms, Tide.now(), true),
  };
  /* The same words again would be laid out and painted again, and all of a long list with them while it is scrolled. */
  Tide.write = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  function tell(element) {
    const text = MOMENTS[element.dataset.as]?.(Number(element.dataset.at));
    if (text !== undefined) Tide.write(element, text);
  }
  Tide.tell = (within) => $$("time[data-at]", within).forEach(tell);
  function tick() {
    const clock = $("[data-clock]");
    if (clock) {
      Tide.write(clock, `${Tide.clock(Tide.now())} ${Tide.zoneOffset(Tide.now())}`);
      clock.dataset.tip = new Date(Tide.now()).toISOString().slice(11, 19) + " UTC";
    }
    if (!document.hidden) $$('time[data-as="age"], time[data-as="left"]').filter(isNear).forEach(tell);
  }
  /* Ages tick where they are seen or may be within a second: all of a long list would be laid out and painted anew. */
  function isNear(element) {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > -innerHeight && top < 2 * innerHeight;
  }
  Tide.tell(document);
  $$("[data-zone-name]").forEach((element) => {
    element.textContent = Tide.zoneOffset(Tide.now());
  });
  $$("input[type=hidden][name=zone]").forEach((input) => {
    input.value = zone;
  });
  tick();
  setInterval(tick, 1000);
  /* After the last of several: each turn of a wheel ends with one. */
  let scrolled = 0;
  addEventListener("scrollend", () => {
    clearTimeout(scrolled);
    scrolled = setTimeout(tick, 100);
  });

  /* ---- theme: system → its opposite → the same, fixed ---- */
  function nextTheme() {
    // The first click must be seen: it leads away from what the system chose, the third back to the system.
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const other = system === "dark" ? "light" : "dark";
    const next = { undefined: other, [other]: system, [system]: undefined }[root.dataset.theme];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    try {
      if (next) localStorage.setItem("theme", next);
      else localStorage.removeItem("theme");
    } catch {
      /* kept for this page only */
    }
    say({ light: gettext("Theme: light"), dark: gettext("Theme: dark") }[next] || gettext("Theme: as the system"));
  }

  // Paper is white: a dark page is printed with the light colours; the charts repaint when the attribute changes.
  let themeOnScreen;
  addEventListener("beforeprint", () => {
    themeOnScreen = root.dataset.theme;
    root.dataset.theme = "light";
    Tide.tell(document);
  });
  addEventListener("afterprint", () => {
    if (themeOnScreen) root.dataset.theme = themeOnScreen;
    else delete root.dataset.theme;
  });

  /* ---- toasts and the polite region ---- */
  function say(text, note) {
    const toast = document.createElement("div"),
      body = document.createElement("div");
    toast.className = "toast";
    for (const line of [text, note])
      if (line) body.append(Object.assign(document.createElement("p"), { textContent: line }));
    toast.append(body);
    $(".toasts").append(toast);
    setTimeout(() => toast.remove(), 4000);
  }
  Tide.say = say;

  /* ---- what a click does ---- */
  async function copy(button) {
    const source = button.dataset.text ?? button.closest(".code").querySelector("pre").textContent;
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(source);
      button.textContent = gettext("Copied");
    } catch {
      button.textContent = gettext("Select and copy");
    }
    setTimeout(() => {
      button.textContent = label;
    }, 1600);
  }
  /* The row that opens below a row of a list; made when it is first wanted. */
  Tide.detailOf = (row) => {
    if (!row.nextElementSibling?.matches(".detail")) {
      const detail = document.createElement("tr");
      detail.className = "detail";
      detail.setAttribute("role", "row");
      Object.assign(detail.insertCell(), { colSpan: row.cells.length }).setAttribute("role", "cell");
      row.after(detail);
    }
    return row.nextElementSibling;
  };
  const actions = {
    theme: nextTheme,
    palette: () => Tide.palette?.open(),
    fold(button) {
      const folded = document.getElementById(button.getAttribute("aria-controls"));
      button.setAttribute("aria-expanded", !folded.classList.toggle("is-folded"));
    },
    menu: (button) => button.setAttribute("aria-expanded", $(".sidebar").classList.toggle("is-open")),
    open: (button) => $("#" + button.dataset.target)?.showModal(),
    close: (button) => button.closest("dialog").close(),
    expand(button) {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", open);
      const { target } = button.dataset,
        rows = target ? $$(`[data-row-of="${target}"]`) : [Tide.detailOf(button.closest("tr"))];
      rows.forEach((row) => {
        row.hidden = !open;
      });
    },
    show(button) {
      for (const one of $$(`[data-do=show][data-of="${button.dataset.of}"]`))
        one.setAttribute("aria-pressed", one === button);
      for (const part of $$(`[data-part-of="${button.dataset.of}"]`))
        part.hidden = part.dataset.part !== button.dataset.part;
    },
    copy,
    print: () => window.print(),
    reload: () => location.reload(),
    live: () => Tide.live?.toggle(),
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) {
      event.preventDefault();
      actions[button.dataset.do]?.(button);
    }
    if (event.target.matches("dialog")) event.target.close();
    for (const menu of $$("details.pop[open]")) if (!menu.contains(event.target)) menu.open = false;
    if (!event.target.closest(TIPPED)) hideTip();
  });
  /* A choice that changes the page at once (rows per page, topic of the browser) submits its form. */
  const SETTLED_MS = 700; // a slider moved by keys is one request, and one line of the audit
  let settling = 0;
  document.addEventListener("change", (event) => {
    const { target } = event;
    if (!target.matches("[data-submits]")) return;
    clearTimeout(settling);
    if (target.type === "range") settling = setTimeout(() => target.form?.requestSubmit(), SETTLED_MS);
    else target.form.requestSubmit();
  });

  /* ---- popovers: behind "unknown", "≥" and "?" (data-why; in a list data-why-at, its place among the
     reasons), explanations (data-tip; an empty one has the whole text of what is cut off), any time; on hover, focus
     and touch ---- */
  const REASONED = "[data-why], [data-why-at]",
    TIPPED = `${REASONED}, [data-tip], time[data-at]`;
  let tip = null,
    tipped = null;
  const isCut = (element) => element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
  function showTip(element) {
    if (tipped === element) return;
    hideTip();
    if (element.dataset.tip === "" && !isCut(element)) return;
    tipped = element;
    tip = Object.assign(document.createElement("div"), { className: "tooltip", role: "tooltip", id: "why" });
    const { tip: text } = element.dataset;
    tip.append(
      ...(element.matches(REASONED)
        ? reasons(element)
        : text !== undefined
          ? [line("p", text || element.textContent.trim())]
          : moments(Number(element.dataset.at), element.dataset.as)),
    );
    (element.closest("dialog") || document.body).append(tip);
    const box = element.getBoundingClientRect(),
      home = tip.offsetParent?.matches("dialog")
        ? tip.offsetParent.getBoundingClientRect()
        : { left: -scrollX, top: -scrollY };
    const left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8));
    const below = box.bottom + 6 + tip.offsetHeight < innerHeight;
    const top = below ? box.bottom + 6 : box.top - 6 - tip.offsetHeight;
    tip.style.transform = `translate(${left - home.left}px, ${top - home.top}px)`;
    element.setAttribute("aria-describedby", "why");
  }
  const line = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  function reasons(element) {
    const { known, knownAt, whyAt } = element.dataset,
      // rows of a list share the template of their table
      why = whyAt
        ? element.closest("table:has(> template)").querySelector(":scope > template").content.children[whyAt]
            .textContent
        : element.dataset.why,
      since = Number(element.dataset.since);
    const isBound = element.classList.contains("atleast");
    const title = isBound ? gettext("At least this much; a part is unknown") : gettext("Unknown");
    const titleSince = isBound
      ? gettext("At least this much; a part is unknown since %(time)s (%(age)s)")
      : gettext("Unknown since %(time)s (%(age)s)");
    const lines = [
      line(
        "b",
        since
          ? Tide.text(titleSince, { time: Tide.moment(since, Tide.now()), age: Tide.age(Tide.now() - since) })
          : title,
      ),
    ];
    if (known)
      lines.push(
        line(
          "p",
          Tide.text(gettext("Last known: %(number)s as of %(time)s"), {
            number: Tide.count(Number(known)),
            time: Tide.moment(Number(knownAt), Tide.now()),
          }),
        ),
      );
    if (why) lines.push(line("p", why));
    return lines;
  }
  function moments(ms, style) {
    const age = Tide.now() - ms,
      far =
        age < 0
          ? Tide.text(gettext("in %(age)s"), { age: Tide.age(-age) })
          : Tide.text(gettext("%(age)s ago"), { age: Tide.age(age) });
    return [
      line("b", `${Tide.moment(ms, Tide.now(), style.endsWith("_ms"))} ${Tide.zoneOffset(ms)}`),
      line("p", `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC, ${far}`),
    ];
  }
  function hideTip() {
    if (tipped?.getAttribute("aria-describedby") === "why") tipped.removeAttribute("aria-describedby");
    tip?.remove();
    tip = tipped = null;
  }
  document.addEventListener("pointerover", (event) => {
    const element = event.target.closest?.(TIPPED);
    if (element) showTip(element);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.target.closest?.(TIPPED) && event.pointerType === "mouse") hideTip();
  });
  document.addEventListener("focusin", (event) => {
    const element = event.target.closest(`${REASONED}, [data-tip]`);
    if (element) showTip(element);
    else hideTip();
  });

  /* ---- a table that is wider than its card scrolls inside it, never the page ---- */
  const widths = new ResizeObserver((entries) => {
    for (const wrap of new Set(entries.map(({ target }) => target.closest(".tablewrap")))) {
      const table = wrap && $("table", wrap); // a detail may be a line of text
      if (!table) continue;
      const isWide = table.offsetWidth > wrap.clientWidth;
      wrap.classList.toggle("is-wide", isWide);
      // the keyboard scrolls what has the focus
      wrap.toggleAttribute("tabindex", isWide);
      if (isWide) wrap.tabIndex = 0;
    }
  });
  /* A table that a phone draws as cards would lose its meaning for a screen reader: its long lists have no roles of
     their own, because every row would repeat them; nor the units of their figures, which stand in the heads. */
  const stacked = matchMedia("(max-width: 899px)");
  function giveRoles(within) {
    if (!stacked.matches) return;
    for (const body of $$("[data-rows]", within)) {
      const heads = [...(body.closest("table").tHead?.rows[0].cells || [])],
        units = heads.map((head) => $(".unit", head)?.textContent || "");
      for (const row of body.rows) {
        if (row.hasAttribute("role")) continue;
        row.setAttribute("role", "row");
        [...row.cells].forEach((cell, i) => {
          cell.setAttribute("role", cell.scope ? "rowheader" : "cell");
          if (units[i] && "details" in body.dataset) cell.dataset.unit = units[i];
        });
      }
    }
  }
  stacked.addEventListener("change", () => giveRoles(document));
  /* What opens a row of a long list, and its unknown figures, do nothing without this script: it gives them what the
     keyboard and a screen reader need. data-opens of the rows: what a row opens. */
  function giveNames(within) {
    for (const figure of $$("[data-why-at]", within)) figure.tabIndex = 0;
    for (const body of $$("[data-opens]", within))
      for (const row of body.rows) {
        const button = $(":scope > th > .expander", row);
        if (!button || button.ariaLabel) continue;
        button.type = "button";
        button.dataset.do = "expand";
        button.ariaExpanded = "false";
        button.ariaLabel = Tide.text(body.dataset.opens, { name: $("a", row).textContent.trim().replace(/\s+/g, " ") });
      }
  }
  /* ---- what a phone folds: a card, or the rows of its table after the first ones; narrow.css folds before the first
     paint. A part that is rendered again keeps what is open. ---- */
  const opened = new Set();
  function foldCards(within) {
    for (const card of $$("[data-fold]", within)) {
      const ofRows = card.dataset.fold === "rows",
        name = card.getAttribute("aria-labelledby"),
        more = ofRows ? gettext("Show all") : gettext("Show"),
        less = ofRows ? gettext("Show less") : gettext("Hide");
      if (card.classList.contains("is-foldable")) continue;
      if (ofRows && $$("[data-rows] > tr:not(.detail)", card).length <= 12) {
        card.classList.add("is-open"); // rows may come
        continue;
      }
      const button = document.createElement("button");
      Object.assign(button, { className: "btn btn--sm push only-s", type: "button" });
      const show = (isOpen) => {
        card.classList.toggle("is-open", isOpen);
        opened[isOpen ? "add" : "delete"](name);
        button.setAttribute("aria-expanded", String(isOpen));
        button.textContent = isOpen ? less : more;
      };
      button.addEventListener("click", () => show(!card.classList.contains("is-open")));
      show(opened.has(name));
      card.classList.add("is-foldable");
      $(".card__head", card).append(button);
    }
  }
  /* The chosen tab of a row that is wider than the phone; scrollIntoView would move the page too. */
  function showTab(within) {
    for (const tab of $$(".tabs > [aria-current]", within)) {
      const row = tab.parentElement;
      row.scrollLeft = tab.offsetLeft - row.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
    }
  }
  Tide.fit = (within) => {
    $$(".tablewrap, .tablewrap > table", within).forEach((one) => widths.observe(one));
    giveNames(within);
    giveRoles(within);
    foldCards(within);
    showTab(within);
  };
  Tide.fit(document);

  /* ---- keys: / search, ? help, g + letter, Ctrl-K palette, j/k rows, Esc closes ---- */
  let leader = 0;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      actions.palette();
      return;
    }
    if (event.key === "Escape") {
      hideTip();
      for (const menu of $$("details.pop[open]")) {
        menu.open = false;
        $("summary", menu).focus();
      }
    }
    if (
      event.target.matches("input, textarea, select") ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      $("dialog[open]")
    )
      return;
    if (leader > Date.now() - 1500) {
      const target = $(`.sidebar a[data-key="${CSS.escape(event.key)}"]`);
      leader = 0;
      if (target) {
        event.preventDefault();
        location.href = target.href;
        return;
      }
    }
    if (event.key === "g") leader = Date.now();
    if (event.key === "/") {
      event.preventDefault();
      const box = $("[data-page-search]");
      if (box) {
        box.focus();
        box.select();
      } else actions.palette();
    }
    if (event.key === "?") $("#keys")?.showModal();
    if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
    const named = /^[a-z]$/.test(event.key) && $(`[aria-keyshortcuts="${event.key}"]`);
    if (named) {
      event.preventDefault();
      if (named.matches("input, select")) named.focus();
      else named.click();
    }
  });
  function moveRow(step) {
    const rows = $$("[data-rows] > tr:not(.detail):not([hidden])");
    if (!rows.length) return;
    const now = rows.findIndex((row) => row.classList.contains("is-selected")),
      next = rows[Math.max(0, Math.min(rows.length - 1, now + step))];
    rows.forEach((row) => row.classList.toggle("is-selected", row === next));
    $("a", next)?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  /* ---- typed confirmation: the button opens only for the exact name; a slider shows its number ---- */
  document.addEventListener("input", (event) => {
    const { confirm, unlocks, shows } = event.target.dataset;
    if (confirm !== undefined) $("#" + unlocks).disabled = event.target.value !== confirm;
    if (shows) $("#" + shows).textContent = Tide.count(Number(event.target.value));
    if (event.target.dataset.takes) takes(event.target);
  });
  /* What a rate means in time, for the messages that are left: data-takes is their number, data-takes-in the place. */
  function takes(input) {
    const rate = Number(input.value);
    $("#" + input.dataset.takesIn).textContent =
      rate > 0
        ? Tide.text(gettext("%(messages)s messages take at least %(time)s at this rate."), {
            messages: Tide.count(Number(input.dataset.takes)),
            time: Tide.duration(Math.max(1000, (Number(input.dataset.takes) / rate) * 1000)),
          })
        : "";
  }
  $$("input[type=number][data-takes]").forEach(takes);
  $$("[data-confirm]").forEach((input) => {
    $("#" + input.dataset.unlocks).disabled = input.value !== input.dataset.confirm;
  });
  /* A form sends once: a second click while the answer is on its way does nothing. */
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "1";
  });
  addEventListener("pageshow", () => $$("form[data-sent]").forEach((form) => delete form.dataset.sent));

  /* ---- a refused form: the keyboard is where the first wrong value is ---- */
  const wrong = document.querySelector("form[method=post] [aria-invalid=true]");
  if (wrong) {
    wrong.closest("details")?.setAttribute("open", "");
    (wrong.matches("fieldset") ? wrong.querySelector("input") : wrong).focus();
  }

  /* ---- a changed cell is tinted once; the width never moves because digits are tabular ---- */
  const STILL = new Set(["ago", "seen", "trend"]); // ages tick by themselves, a line is not a digit
  const flashing = new Set();
  /* An animation begins anew once a frame has been drawn without it: for all cells of a round at once, so that none
     makes the browser lay out the page in between. */
  function flash(element) {
    element.classList.remove("flash");
    if (!flashing.size)
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          flashing.forEach((one) => one.classList.add("flash"));
          flashing.clear();
        }),
      );
    flashing.add(element);
  }
  /* After a sort all rows come again: a line that stays as it is drawn costs nothing. */
  function isDrawn(line, next) {
    return line?.dataset.trend === next.dataset.trend && line.getAttribute("class") === next.getAttribute("class");
  }
  const shown = new WeakMap(); // cell → what it was last given: most cells of a changed row stay as they are
  Tide.put = (element, html, kind) => {
    if (shown.get(element) === html) return false;
    shown.set(element, html);
    const isText = !html.includes("&") && !STILL.has(kind);
    if (isText && html.replace(/<[^>]*>/g, "") === element.textContent) return false;
    const draft = document.createElement("template");
    draft.innerHTML = html;
    if (kind === "trend" && isDrawn(element.firstElementChild, draft.content.firstElementChild)) return false;
    const changed = draft.content.textContent !== element.textContent;
    if (!changed && !STILL.has(kind)) return false;
    element.replaceChildren(draft.content);
    if (!changed || STILL.has(kind)) return false;
    flash(element);
    return true;
  };
})();
