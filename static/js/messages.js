/* The message list: a search's rows while it scans, a tail's as they arrive, bodies when a row is opened.
   The socket sends parts as HTML that the server rendered; this script puts them where they belong. */
(function () {
  "use strict";
  const ROWS_KEPT = 300; // of a tail: the newest
  const $ = (selector, root = document) => root.querySelector(selector);
  const card = $("[data-search]");
  const list = card && $("[data-list]", card),
    body = list && $("[data-rows]", list);
  const newestFirst = card?.dataset.newest === "1";
  let socket = null,
    ended = false;

  /* ---- rows in the list's order: store time, broker, queue, offset ---- */
  const keys = new Map(); // text of the key → its row
  function compare(a, b) {
    for (let i = 0; i < a.length; i += 1) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
  }
  const rows = () => [...body.querySelectorAll("tr[data-key]")];
  function put(key, html, fresh) {
    if (keys.has(key)) return;
    const part = document.createElement("template"),
      parsed = JSON.parse(key);
    part.innerHTML = html.trim();
    Tide.tell(part.content);
    const row = part.content.querySelector("tr[data-key]");
    if (fresh) row.classList.add("is-fresh");
    const before = rows().find((other) =>
      newestFirst
        ? compare(JSON.parse(other.dataset.key), parsed) < 0
        : compare(JSON.parse(other.dataset.key), parsed) > 0,
    );
    keys.set(key, row);
    body.insertBefore(part.content, before || null);
    choosable(row); // in the document: a link of a template has no address
  }
  function drop(row) {
    keys.delete(row.dataset.key);
    const detail = row.nextElementSibling;
    if (detail?.classList.contains("detail")) detail.remove();
    row.remove();
  }
  function show() {
    list.hidden = keys.size === 0;
    const exports = $("[data-exports]", card);
    if (exports) exports.hidden = list.hidden;
    const empty = $("[data-empty]", card);
    if (empty) empty.hidden = keys.size > 0 || (!ended && card.dataset.search === "search");
  }

  /* ---- the socket ---- */
  function html(selector, text, within = document) {
    const part = $(selector, within);
    if (part && text !== undefined) {
      part.innerHTML = text;
      Tide.tell(part);
    }
  }
  function receive(frame) {
    if (frame.refused) {
      const banner = $("[data-refused]");
      banner.hidden = false;
      $("span", banner).textContent = frame.refused;
      ended = true;
      $("[data-do=stop-search]")?.remove();
    }
    html("[data-scan]", frame.scan ?? frame.tail);
    if (paused) mark($("[data-do=pause-tail]"));
    for (const row of frame.rows || []) put(row.key, row.html, card.dataset.search === "tail");
    if (frame.rows?.length) Tide.fit(list);
    if (card.dataset.search === "tail") for (const old of rows().slice(ROWS_KEPT)) drop(old);
    if (frame.done) {
      ended = true;
      if (frame.keep) {
        const kept = new Set(frame.keep);
        for (const row of rows()) if (!kept.has(row.dataset.key)) drop(row);
      }
      html("[data-notes]", frame.notes);
      html("[data-foot]", frame.foot, card);
      if (frame.foot) $("[data-foot]", card).hidden = false;
      const sorted = $("[data-sorted-in]", card);
      if (sorted) sorted.hidden = true;
      const told = $("#announce");
      if (told)
        told.textContent = Tide.text(ngettext("%(number)s message found.", "%(number)s messages found.", keys.size), {
          number: keys.size,
        });
    }
    show();
  }
  function open() {
    const address = new URL(
      `/ws/c/${encodeURIComponent(document.documentElement.dataset.cluster)}/messages${location.search}`,
      location.href,
    );
    address.protocol = address.protocol.replace("http", "ws");
    socket = new WebSocket(address);
    socket.addEventListener("message", (event) => receive(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      if (ended) return;
      ended = true;
      receive({
        refused: gettext(
          "The connection to the console was lost. Results so far are kept; reload the page to search again.",
        ),
      });
    });
  }
  const ask = (request) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(request));
  };

  let paused = false;
  function mark(button) {
    if (!button) return;
    button.setAttribute("aria-pressed", paused);
    button.lastChild.textContent = paused ? gettext("Continue") : gettext("Pause");
  }

  /* ---- bodies: fetched when a row is opened or another format is chosen ---- */
  async function peek(address, cell) {
    try {
      const answer = await fetch(address, { headers: { "X-Requested-With": "fetch" } });
      if (!answer.ok)
        throw new Error(
          answer.status === 404
            ? gettext("The broker does not have it any more.")
            : Tide.text(gettext("The console answered %(status)s."), { status: answer.status }),
        );
      cell.innerHTML = await answer.text();
      Tide.tell(cell);
      Tide.bodies(cell);
    } catch (error) {
      cell.textContent = Tide.text(gettext("The body could not be read. %(reason)s"), { reason: error.message });
    }
  }

  document.addEventListener("click", (event) => {
    const format = event.target.closest("[data-peek-as]");
    if (format) {
      event.preventDefault();
      peek(format.href, format.closest("td"));
      return;
    }
    const button = event.target.closest("[data-do]");
    if (!button) return;
    if (button.matches("[data-peek] .expander") && !button.dataset.read) {
      button.dataset.read = "1"; // shell.js has made the row that shows it
      const row = button.closest("tr");
      const link = $("td a", row),
        cell = Tide.detailOf(row).cells[0];
      cell.append(link.cloneNode(true)); // of the message's own page, until its body is here
      peek(`${link.href}&part=peek`, cell);
    }
    if (button.dataset.do === "stop-search") {
      button.disabled = true;
      ask({ stop: true });
    }
    if (button.dataset.do === "pause-tail") {
      paused = !paused;
      mark(button);
      ask({ pause: paused });
    }
  });

  function choosable(row) {
    const cell = $(".pick", row);
    if (!cell) return;
    const { searchParams: place } = new URL($("td a", row).href),
      box = Object.assign(document.createElement("input"), {
        type: "checkbox",
        name: "m",
        value: `${place.get("topic")}:${place.get("at")}`,
        ariaLabel: gettext("Select to compare"),
      });
    box.setAttribute("form", "compare");
    cell.append(box);
  }
  /* Two rows are compared: marking a third takes the place of the one marked first. */
  const marked = [];
  const compareButton = $("[data-compare]");
  const compares = () => (compareButton.disabled = marked.length !== 2);
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.name !== "m") return;
    if (marked.includes(box)) marked.splice(marked.indexOf(box), 1);
    if (box.checked) marked.push(box);
    if (marked.length > 2) marked.shift().checked = false;
    compares();
  });
  /* Back: the browser marks again what was marked. */
  addEventListener("pageshow", () => {
    if (!compareButton || marked.length) return;
    marked.push(...document.querySelectorAll("[name=m]:checked"));
    compares();
  });

  /* Empty fields stay out of the address, so that it can be read and sent on. */
  $("form.ask")?.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });
  if (card) {
    for (const row of rows()) {
      keys.set(row.dataset.key, row);
      choosable(row);
    }
    if (card.dataset.search) {
      $("[data-foot]", card).hidden = true;
      open();
    } // how it goes on is not known yet
  }
})();
