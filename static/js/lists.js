/* Lists of topics and groups: a row opens in place, and each person chooses the columns. data-details of the rows is
   the query by which the page of a row gives what opens; above it stand the columns that the width hides. */
(function () {
  "use strict";
  const root = document.documentElement;
  const token = () => document.querySelector("input[name=csrfmiddlewaretoken]").value;

  /* ---- rows that open ---- */
  const REFRESH_EVERY = 5000,
    EXPANDER = "[data-details] > tr > th > .expander";
  const rowOf = (button) => button.closest("tr"),
    detailOf = (button) => Tide.detailOf(rowOf(button));

  function skeleton() {
    const host = document.createElement("div");
    host.className = "detail__wait";
    host.setAttribute("aria-label", "Loading");
    for (let i = 0; i < 3; i++)
      host.append(
        Object.assign(document.createElement("span"), { className: "skel skel--l" }),
        Object.assign(document.createElement("span"), { className: "skel skel--s" }),
      );
    return host;
  }
  /* What the width, or this person, has put away of the row: with its name, and live as in the row. */
  function putAway(row) {
    const heads = [...row.closest("table").tHead.rows[0].cells],
      list = document.createElement("dl");
    list.className = "kv kv--row";
    [...row.cells].forEach((cell, i) => {
      if (getComputedStyle(cell).display !== "none" || !heads[i]?.textContent.trim()) return;
      const value = document.createElement("dd");
      value.append(...[...cell.childNodes].map((node) => node.cloneNode(true)));
      const { field, as } = cell.dataset;
      if (field) Object.assign(value.dataset, { field, as });
      const name = document.createElement("div");
      name.append(
        Object.assign(document.createElement("dt"), { textContent: heads[i].textContent.trim().replace(/\s+/g, " ") }),
        value,
      );
      list.append(name);
    });
    const subject = row.closest("[data-live-subject]")?.dataset.liveSubject;
    if (subject) {
      list.dataset.liveSubject = subject;
      list.dataset.key = row.dataset.key;
    }
    return list.children.length ? [list] : [];
  }
  async function fill(button, part) {
    try {
      const address = rowOf(button).querySelector("a.primary").pathname + button.closest("tbody").dataset.details,
        answer = await fetch(address, { headers: { Accept: "text/html" } });
      if (!answer.ok || answer.redirected)
        throw new Error(
          answer.status === 404
            ? gettext("It no longer exists.")
            : answer.redirected
              ? gettext("You are signed out: reload the page.")
              : Tide.text(gettext("The console answered %(status)s."), { status: answer.status }),
        );
      part.innerHTML = await answer.text();
      Tide.tell(part);
    } catch (error) {
      if (part.querySelector("table")) return; // what stands there has its age in the head of the page
      const again = Object.assign(document.createElement("button"), {
        className: "btn btn--sm",
        type: "button",
        textContent: gettext("Try again"),
      });
      again.addEventListener("click", () => {
        part.replaceChildren(skeleton());
        fill(button, part);
      });
      part.replaceChildren(
        Object.assign(document.createElement("p"), {
          className: "muted",
          textContent: error instanceof TypeError ? gettext("The console does not answer.") : error.message,
        }),
        again,
      );
    }
  }
  function open(button) {
    const cell = detailOf(button).cells[0],
      part = document.createElement("div");
    part.dataset.loaded = "";
    part.append(skeleton());
    cell.replaceChildren(...putAway(rowOf(button)), part);
    Tide.live.attach(cell);
    return fill(button, part);
  }
  function close(button) {
    const cell = detailOf(button).cells[0];
    Tide.live.detach(cell);
    cell.replaceChildren();
  }
  /* shell.js has shown or hidden the row by now. */
  document.addEventListener("click", (event) => {
    const button = event.target.closest(EXPANDER);
    if (button) (button.getAttribute("aria-expanded") === "true" ? open : close)(button);
  });
  document.addEventListener("keydown", (event) => {
    if (
      event.key !== "o" ||
      event.defaultPrevented ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.target.matches("input, textarea, select") ||
      document.querySelector("dialog[open]")
    )
      return;
    const row =
      document.activeElement.closest?.("[data-rows] > tr") || document.querySelector("[data-rows] > tr.is-selected");
    row?.querySelector(EXPANDER)?.click();
  });
  let last = 0;
  Tide.live.on(`c/${root.dataset.cluster}/collector`, ({ round }) => {
    if (!round || document.hidden || Date.now() - last < REFRESH_EVERY) return;
    last = Date.now();
    for (const button of document.querySelectorAll(`${EXPANDER}[aria-expanded="true"]`)) {
      const part = detailOf(button).querySelector("[data-loaded]");
      if (part && !part.contains(document.activeElement) && !part.querySelector(".detail__wait")) fill(button, part);
    }
  });

  /* ---- columns: kept by the console for this person, applied by theme.js before the next page's first paint ---- */
  const tableOf = (menu) => menu.closest(".card").querySelector("table[data-columns]");
  const headsOf = (table) => [...table.tHead.querySelectorAll("th[data-column]")];
  let kept = root.dataset.columns ? JSON.parse(root.dataset.columns) : null;
  async function keep(choice) {
    kept = choice;
    Tide.applyColumns(choice);
    root.dataset.columns = JSON.stringify(choice);
    const body = new URLSearchParams({ on: choice.on.join(), off: choice.off.join() });
    const answer = await fetch(`/columns/${choice.table}`, {
      method: "POST",
      body,
      headers: { "X-CSRFToken": token() },
    }).catch(() => null);
    if (!answer?.ok)
      Tide.say(
        gettext("Columns were not saved"),
        gettext("They apply to this page only: the console did not save them."),
      );
  }
  function fillMenu(menu) {
    const list = menu.querySelector(".menu");
    list.replaceChildren(
      ...headsOf(tableOf(menu))
        .slice(1)
        .flatMap((head) => {
          const label = head.textContent.trim().replace(/\s+/g, " ");
          if (!label || head.querySelector(".sr")) return [];
          const row = document.createElement("label"),
            box = Object.assign(document.createElement("input"), {
              type: "checkbox",
              checked: getComputedStyle(head).display !== "none",
            });
          box.dataset.choose = head.dataset.column;
          row.className = "menu__check";
          row.append(box, label);
          return [row];
        }),
    );
    const reset = Object.assign(document.createElement("button"), {
      type: "button",
      textContent: gettext("As the width allows"),
    });
    reset.addEventListener("click", () => {
      keep({ ...chosen(menu), on: [], off: [] });
      fillMenu(menu);
    });
    list.append(document.createElement("hr"), reset);
    /* Upwards, because the button stands below its list; under a short list there is no room above. */
    menu.classList.toggle(
      "pop--up",
      menu.getBoundingClientRect().top - list.offsetHeight > document.querySelector(".topbar").offsetHeight + 12,
    );
  }
  function chosen(menu) {
    const table = tableOf(menu),
      name = table.dataset.columns,
      columns = headsOf(table).map((head) => head.dataset.column);
    return { table: name, columns, on: kept?.table === name ? kept.on : [], off: kept?.table === name ? kept.off : [] };
  }
  document.addEventListener(
    "toggle",
    (event) => {
      if (event.target.matches?.("details[data-columns-menu][open]")) fillMenu(event.target);
    },
    true,
  );
  document.addEventListener("change", ({ target }) => {
    if (!target.matches("[data-choose]")) return;
    const now = chosen(target.closest("details")),
      name = target.dataset.choose,
      without = (names) => names.filter((one) => one !== name);
    keep({
      ...now,
      on: [...without(now.on), ...(target.checked ? [name] : [])],
      off: [...without(now.off), ...(target.checked ? [] : [name])],
    });
  });
})();
