/* What is rendered again stands where it stood, and nothing around it moves: Tide.stood(part) before, then what it
   returned with what took the part's place.
   data-room="grows" or "stats": a card or part never gets lower, a card on a phone never higher; "findings": the card
   keeps its height; .banners: what comes lies over the page's foot, what goes leaves its room. Columns keep their
   widths, unless a cell needs more. */
(function () {
  "use strict";
  const all = (part, selector) => [...(part.matches(selector) ? [part] : []), ...part.querySelectorAll(selector)],
    heightOf = (one) => one.getBoundingClientRect().height,
    nameOf = (one) => (one.dataset.room === "grows" ? one.getAttribute("aria-labelledby") : one.dataset.room),
    headsOf = (table) => [...(table.tHead?.querySelectorAll("th, td") ?? [])];

  /* Where the card of findings is too low, texts and then findings are left out, the least severe first; the head
     offers them, and names the worst finding when not one has room. */
  function fitFindings(card, room) {
    const isFull = () => heightOf(card) > room + 0.1;
    if (!isFull()) return;
    const rows = [...card.querySelectorAll(".findings > li")],
      texts = rows.map((row) => row.querySelector("p")),
      pieces = [rows[0], texts[0], ...rows.slice(1), ...texts.slice(1)],
      note = card.querySelector(".card__head > .note"),
      button = document.createElement("button");
    Object.assign(button, { type: "button", id: "all-findings", className: "btn btn--sm push" });
    button.textContent = Tide.text(ngettext("Show %(number)s finding", "Show %(number)s findings", rows.length), {
      number: Tide.count(rows.length),
    });
    note.after(button);
    for (const one of pieces.toReversed()) {
      if (!isFull()) break;
      one.hidden = true;
    }
    if (rows[0].hidden)
      note.replaceWith(...[...rows[0].querySelectorAll(":scope > :is(.glyph, h3)")].map((one) => one.cloneNode(true)));
    button.addEventListener("click", () => {
      card.style.removeProperty("--room");
      for (const one of pieces) one.hidden = false;
      for (const one of card.querySelectorAll(".card__head > :is(.glyph, h3, button)")) one.remove();
    });
  }
  function settle(banner, height, fresh) {
    if (!fresh.hidden && banner.hidden) {
      fresh.hidden = true; // for the flow of the page
      fresh.classList.add("is-late");
    } else if (fresh.hidden && !banner.hidden) {
      fresh.hidden = false;
      fresh.classList.add("is-gone");
      fresh.style.minHeight = `${height}px`;
      fresh.textContent = gettext("The brokers answer again.");
    }
  }

  Tide.stood = (part) => {
    const rooms = new Map(all(part, "[data-room]").map((card) => [nameOf(card), heightOf(card)])),
      banners = all(part, ".banners").map((banner) => [banner, heightOf(banner)]),
      tables = all(part, "table").map((table) =>
        headsOf(table).map((head) => (100 * head.offsetWidth) / table.offsetWidth),
      );
    return (fresh) => {
      all(fresh, "table").forEach((table, at) => {
        const heads = headsOf(table);
        if (heads.length !== tables[at]?.length) return;
        heads.forEach((head, place) => (head.style.width = tables[at][place] ? `${tables[at][place]}%` : ""));
      });
      all(fresh, ".banners").forEach((banner, at) => banners[at] && settle(...banners[at], banner));
      for (const card of all(fresh, "[data-room]")) {
        const room = rooms.get(nameOf(card));
        if (!room) continue;
        card.style.setProperty("--room", `${room}px`);
        if (card.dataset.room === "findings") fitFindings(card, room);
      }
    };
  };
})();
