/* The page's one WebSocket: names the subjects on the page, applies rows to cells, and says how old the data is.
   Markup: data-live-subject on a part, data-key on a row (or the part), data-field and data-as on a cell.
   Server: {"subject", "seq", "at_ms", "full", "rows": {key: row | null}}; it sends everything again after a gap by itself. */
(function () {
  "use strict";
  const root = document.documentElement;
  const INTERVAL = Number(root.dataset.interval || 5) * 1000;
  const STALE_AFTER = 3 * INTERVAL, HIDDEN_CLOSES_AFTER = 60000;
  const RETRY_FIRST = 500, RETRY_LAST = 15000;

  const subjects = new Map(); // subject → {seq, handlers}
  const indicator = document.querySelector("[data-do=live]");
  let socket = null, retry = RETRY_FIRST, timer = 0, paused = false, hidden = 0;
  let lastAt = Number(root.dataset.readAt || 0), partial = indicator?.classList.contains("live--partial") || false;

  /* ---- subjects ---- */
  function on(subject, handler) {
    const known = subjects.get(subject);
    if (known) known.handlers.push(handler);
    else subjects.set(subject, { seq: -1, handlers: [handler] });
    if (socket?.readyState === WebSocket.OPEN && !known) ask(subject);
  }
  const ask = (...names) => socket.send(JSON.stringify({ subscribe: names.map((subject) => ({ subject })) }));

  function receive(event) {
    const message = JSON.parse(event.data), known = subjects.get(message.subject);
    if (!known || !message.rows) return;
    if (!message.full && message.seq <= known.seq) return;
    known.seq = message.seq;
    for (const handler of known.handlers) handler(message.rows, message);
  }

  /* ---- rows → cells ---- */
  function apply(part) {
    const rows = new Map();
    for (const row of [part, ...part.querySelectorAll("[data-key]")]) {
      if (!row.dataset.key) continue;
      const cells = [...row.querySelectorAll("[data-field]")].filter((c) => c.closest("[data-key]") === row);
      rows.set(row.dataset.key, [...(rows.get(row.dataset.key) || []), { row, cells }]);
    }
    return (changes) => {
      const now = Tide.now();
      for (const [key, row] of Object.entries(changes)) {
        for (const shown of rows.get(key) || []) {
          shown.row.classList.toggle("is-gone", row === null);
          if (row === null) continue;
          shown.last = { ...shown.last, ...row };
          for (const cell of shown.cells) {
            if (cell.dataset.field in shown.last) Tide.put(cell, Tide.cell(shown.last, cell.dataset.field, cell.dataset.as, now), cell.dataset.as);
          }
        }
      }
      Tide.sparklines?.(part);
    };
  }

  /* ---- connection: reconnects with jitter, so that a restarted console is not stormed ---- */
  function connect() {
    clearTimeout(timer);
    if (paused || socket || !subjects.size) return;
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live`);
    socket.addEventListener("open", () => { retry = RETRY_FIRST; ask(...subjects.keys()); show(); });
    socket.addEventListener("message", receive);
    socket.addEventListener("close", () => {
      socket = null;
      for (const known of subjects.values()) known.seq = -1;
      show();
      if (paused || document.hidden) return;
      timer = setTimeout(connect, retry * (0.5 + Math.random()));
      retry = Math.min(retry * 2, RETRY_LAST);
    });
  }
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => socket?.close(), HIDDEN_CLOSES_AFTER);
    else { Tide.tell(document); retry = RETRY_FIRST; connect(); }
  });

  /* ---- the indicator: Live, Live partial, Stale, Paused, Reconnecting; with the age of the newest round ---- */
  let state = "";
  function show() {
    if (!indicator) return;
    const old = lastAt ? Tide.now() - lastAt : null;
    const stale = old !== null && old > STALE_AFTER;
    const next = paused ? "Paused" : stale ? "Stale" : !socket || socket.readyState !== WebSocket.OPEN ? "Reconnecting" : partial ? "Live, partial" : "Live";
    indicator.classList.toggle("live--paused", paused);
    indicator.classList.toggle("live--stale", !paused && (stale || next === "Reconnecting"));
    indicator.classList.toggle("live--partial", !paused && partial);
    indicator.setAttribute("aria-pressed", String(paused));
    indicator.querySelector("[data-live-word]").textContent = next;
    indicator.querySelector("[data-live-age]").textContent = old === null ? "no data" : Tide.age(old);
    if (state && next !== state && next !== "Reconnecting") document.getElementById("announce").textContent = `Data: ${next}`;
    state = next;
  }
  function round(rows) {
    const latest = rows.round;
    if (!latest) return;
    lastAt = latest.started_at_ms + (latest.duration_ms || 0);
    partial = latest.brokers_answered < latest.brokers_total;
    show();
  }
  setInterval(show, 1000);

  /* ---- lists: counts in the chips, and rows that have moved since the page was made ---- */
  function chips(part) {
    const all = new Map(), query = (part.dataset.query || "").toLowerCase(), system = part.dataset.system === "1";
    return (changes, message) => {
      if (message.full) all.clear();
      for (const [key, row] of Object.entries(changes)) { if (row === null) all.delete(key); else all.set(key, { ...all.get(key), ...row }); }
      const counts = { ALL: 0, PARTIAL: 0 }, matching = [];
      for (const [key, row] of all) {
        if ((row.is_system && !system) || !key.toLowerCase().includes(query)) continue;
        counts.ALL += 1;
        matching.push(key);
        counts[row.status] = (counts[row.status] || 0) + 1;
        if (row.partial) counts.PARTIAL += 1;
      }
      for (const chip of document.querySelectorAll("[data-chip]")) {
        const text = Tide.count(counts[chip.dataset.chip] || 0);
        chip.closest(".chip").hidden = !counts[chip.dataset.chip] && !chip.closest(".chip").hasAttribute("aria-current") && chip.dataset.chip !== "ALL";
        if (chip.textContent !== text) chip.textContent = text;
      }
      note(part, moved(part, all), fresh(part, matching));
    };
  }
  function note(part, moves, news) {
    const line = document.querySelector("[data-moved]");
    if (!line) return;
    line.hidden = !moves && !news;
    const words = [news ? `${Tide.count(news)} new` : "", moves ? `${Tide.count(moves)} rows have moved` : ""];
    line.querySelector("span").textContent = words.filter(Boolean).join(", ") + " since the page was made.";
  }
  function fresh(part, matching) { // rows that a page of everything does not have yet
    if (part.dataset.complete !== "1") return 0;
    const shown = new Set([...part.querySelectorAll("tr[data-key]")].map((row) => row.dataset.key));
    return matching.filter((key) => !shown.has(key)).length;
  }
  function moved(part, all) {
    const field = part.dataset.sort;
    if (!field) return 0;
    const sign = part.dataset.descending === "1" ? -1 : 1;
    const keys = [...part.querySelectorAll("tr[data-key]")].map((row) => row.dataset.key).filter((key) => all.has(key));
    const value = (key) => all.get(key)[field] ?? null;
    const before = (a, b) => (value(a) === value(b) ? 0 : value(a) === null ? 1 : value(b) === null ? -1 : value(a) < value(b) ? -sign : sign);
    const sorted = [...keys].sort(before);
    const count = keys.filter((key, i) => value(key) !== value(sorted[i])).length;
    return count < 2 ? 0 : count;
  }

  /* ---- the number beside Operations: jobs of this cluster that are not finished ---- */
  const FINAL = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]), jobs = new Map();
  function count(changes, message) {
    if (message.full) jobs.clear();
    for (const [id, row] of Object.entries(changes)) { if (row === null) jobs.delete(id); else jobs.set(id, row); }
    const open = [...jobs.values()].filter((row) => row.cluster === root.dataset.cluster && !FINAL.has(row.state)).length;
    for (const mark of document.querySelectorAll("[data-jobs]")) mark.textContent = open ? Tide.count(open) : "";
  }

  const live = { on, toggle() { paused = !paused; if (paused) socket?.close(); else { retry = RETRY_FIRST; connect(); } show(); } };
  Tide.live = live;
  if (root.dataset.cluster) { on(`c/${root.dataset.cluster}/collector`, round); on("jobs", count); }
  for (const part of document.querySelectorAll("[data-live-subject]")) {
    on(part.dataset.liveSubject, apply(part));
    if (part.dataset.liveList) on(part.dataset.liveSubject, chips(part));
  }
  addEventListener("DOMContentLoaded", connect); // page scripts have named their subjects by then
  if (document.readyState === "complete") connect();
  show();
})();
