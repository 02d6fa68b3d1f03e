/* The page's one WebSocket: names the subjects and the rows on the page, applies them to cells, and says how old the
   data is. Markup: data-live-subject on a part, data-key on a row (or the part), data-field and data-as on a cell
   or, for the cells of a column that hold nothing else than the figure or its link, on its head.
   Server: {"subject", "seq", "at_ms", "full", "rows": {key: row | null}}; it sends everything again after a gap by
   itself, and {"redis": "away" | "back"} when nothing can reach it. */
(function () {
  "use strict";
  const root = document.documentElement;
  const INTERVAL = Number(root.dataset.interval || 5) * 1000;
  const STALE_AFTER = 3 * INTERVAL,
    HIDDEN_CLOSES_AFTER = 60000;
  const RETRY_FIRST = 500,
    RETRY_LAST = 15000,
    LOST_AFTER = 3000;
  const PROBE_EVERY = 10000,
    PROBE_WAITS = 4000,
    DATABASE_WAITS = 12000,
    SIGNED_OUT = 4401; // the code by which the server ends a socket with its session

  // subject → {seq, handlers: [{handler, keys, seq}]}; keys null: every row; seq: as of which number the page was made
  const subjects = new Map();
  const indicator = document.querySelector("[data-do=live]");
  let socket = null,
    retry = RETRY_FIRST,
    timer = 0,
    paused = false,
    hidden = 0;
  let unreached = 0; // since which round no broker has answered
  let lost = 0,
    silent = 0; // since when there is no socket, or a socket that nothing reaches
  let ended = 0; // since when the session is over
  let mute = 0,
    baseless = 0, // since when the console itself says nothing, or that its database is away
    probed = 0; // when it was asked last
  let lastAt = Number(root.dataset.readAt || 0),
    partial = indicator?.classList.contains("live--partial") || false;

  /* ---- subjects ---- */
  const isOpen = () => socket?.readyState === WebSocket.OPEN;
  function on(subject, handler, keys = null, seq = -1) {
    const known = subjects.get(subject) || { seq, handlers: [] };
    known.handlers.push({ handler, keys, seq });
    subjects.set(subject, known);
    if (!isOpen()) return;
    if (!begun.size) queueMicrotask(askAll);
    begun.add(subject);
  }
  /* Subjects that begun, or want other rows: the server sends what they are now, once for all handlers. */
  const begun = new Set();
  function askAll() {
    const names = [...begun].filter((name) => subjects.has(name));
    begun.clear();
    if (isOpen() && names.length) ask(...names);
  }
  function off(subject, handler) {
    const known = subjects.get(subject);
    if (!known) return;
    known.handlers = known.handlers.filter((one) => one.handler !== handler);
    if (known.handlers.length) return;
    subjects.delete(subject);
    if (isOpen()) socket.send(JSON.stringify({ unsubscribe: [subject] }));
  }
  function wish(subject) {
    const { handlers } = subjects.get(subject),
      wanted = handlers.map((one) => one.keys),
      seq = Math.min(...handlers.map((one) => one.seq)),
      keys = wanted.includes(null) ? undefined : [...new Set(wanted.flat())];
    return { subject, keys, seq: seq < 0 ? undefined : seq };
  }
  const ask = (...names) => socket.send(JSON.stringify({ subscribe: names.map(wish) }));

  function receive(event) {
    const message = JSON.parse(event.data),
      known = subjects.get(message.subject);
    if (message.redis) {
      silent = message.redis === "away" ? Tide.now() : 0;
      show();
    }
    if (!known || !message.rows) return;
    if (!message.full && message.seq <= known.seq) return;
    known.seq = message.seq;
    for (const { handler } of known.handlers) handler(message.rows, message);
  }

  /* ---- rows → cells ---- */
  function nameCells(part) {
    for (const head of (part.closest("table") ?? part).querySelectorAll("thead th[data-field]")) {
      const { field, as } = head.dataset,
        within = part.closest("tbody") ?? head.closest("table");
      for (const row of within.querySelectorAll(":scope > tr[data-key], :scope > tbody > tr[data-key]")) {
        const cell = row.cells[head.cellIndex];
        Object.assign((cell.querySelector(":scope > a") ?? cell).dataset, { field, as });
      }
    }
  }
  function apply(part) {
    const rows = new Map();
    nameCells(part);
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
            if (cell.dataset.field in shown.last)
              Tide.put(cell, Tide.cell(shown.last, cell.dataset.field, cell.dataset.as, now), cell.dataset.as);
            if (cell.dataset.as === "job") cell.job = shown.last;
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
    socket.addEventListener("open", () => {
      retry = RETRY_FIRST;
      lost = silent = mute = baseless = ended = 0;
      ask(...subjects.keys());
      show();
    });
    socket.addEventListener("message", receive);
    socket.addEventListener("close", ({ code }) => {
      socket = null;
      if (code === SIGNED_OUT) ended = ended || Tide.now();
      lost = lost || Tide.now();
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
    else {
      Tide.tell(document);
      retry = RETRY_FIRST;
      connect();
    }
  });

  /* ---- the indicator: Live, Live partial, Stale, Paused, Reconnecting; with the age of the newest round ---- */
  let state = "";
  function show() {
    if (!indicator) return;
    const old = lastAt ? Tide.now() - lastAt : null;
    const stale = Boolean(unreached) || (old !== null && old > STALE_AFTER);
    const isAway = lost > 0; // a page that was just made waits for its first socket, and has the figures
    const next = paused
      ? gettext("Paused")
      : stale
        ? gettext("Stale")
        : isAway
          ? gettext("Reconnecting")
          : partial
            ? gettext("Live, partial")
            : gettext("Live");
    indicator.classList.toggle("live--paused", paused);
    indicator.classList.toggle("live--stale", !paused && (stale || isAway));
    indicator.classList.toggle("live--partial", !paused && partial);
    indicator.setAttribute("aria-pressed", String(paused));
    Tide.write(indicator.querySelector("[data-live-word]"), next);
    Tide.write(indicator.querySelector("[data-live-age]"), old === null ? gettext("no data") : Tide.age(old));
    if (state && next !== state && (paused || stale || !isAway))
      document.getElementById("announce").textContent = Tide.text(gettext("Data: %(state)s"), { state: next });
    state = next;
    tellLost();
  }
  /* Nothing comes and the socket seems open: a console that hangs, or a network that swallows, never closes it. The
     search of names needs both databases: 503 says that one is away, whether the socket is open or not. */
  async function probe() {
    if (Tide.now() - probed < PROBE_EVERY) return;
    probed = Tide.now();
    const status = (url, limit) =>
      fetch(url, { cache: "no-store", headers: Tide.BY_TIMER, signal: AbortSignal.timeout(limit) }).then(
        (answer) => (answer.redirected ? SIGNED_OUT : answer.status),
        () => 0,
      );
    const isThere = (await status("/healthz", PROBE_WAITS)) === 200;
    if (isOpen()) mute = isThere ? 0 : mute || lastAt;
    const names = isThere && (await status(`/c/${root.dataset.cluster}/jump?q=a`, DATABASE_WAITS));
    baseless = names === 503 ? baseless || lost || lastAt : 0;
    if (names === SIGNED_OUT) ended = ended || lost || Tide.now();
    if (mute) socket?.close(); // its end makes a new one
    show();
  }
  /* What stands still and since when; it lies over the page's foot, so nothing moves. */
  const bar = document.getElementById("not-live");
  function tellLost() {
    if (!bar) return;
    const now = Tide.now(),
      line = bar.querySelector("[data-not-live]");
    const gone = lost && now - lost > LOST_AFTER ? lost : 0,
      old = lastAt && now - lastAt > STALE_AFTER ? lastAt : 0;
    const isUnreachable = unreached && !document.querySelector("[data-unreachable]");
    const reasons = [
      [
        ended,
        gettext(
          "Your session ended at %(time)s. Figures are not updated. Reload the page to sign in; what you typed here is then lost.",
        ),
      ],
      [
        silent,
        gettext(
          "Not live since %(time)s: Redis, which carries live updates, does not answer the console. Figures are not updated; reload the page for those of the last round.",
        ),
      ],
      [
        mute,
        gettext(
          "The console has not answered this page since %(time)s; reconnecting. Figures are not updated until then. If this continues, check that the console runs and can be reached from here.",
        ),
      ],
      [
        baseless,
        gettext(
          "The console’s database has not answered since %(time)s. Until it does, figures are not updated and nothing can be changed; brokers, producers and consumers are not affected.",
        ),
      ],
      [gone, gettext("Not live since %(time)s, reconnecting. Figures are not updated until then.")],
      [
        isUnreachable ? unreached : 0,
        gettext(
          "No broker of this cluster has answered since %(time)s. The figures are the last known ones; reload the page for details.",
        ),
      ],
      [
        isOpen() && !unreached ? old : 0,
        gettext(
          "No new round since %(time)s: the worker that reads the brokers, or Redis between it and this page, does not answer. Figures are not updated; “manage.py doctor” shows which.",
        ),
      ],
    ];
    const isWatched = !paused && !document.hidden;
    const [since, text] = (isWatched && reasons.find(([at]) => at)) || [0, ""];
    if ((old || gone) && isWatched && root.dataset.cluster) probe();
    const said = since ? Tide.text(text, { time: Tide.moment(since, now) }) : "";
    bar.hidden = !since;
    Tide.write(line, said);
  }
  /* Brokers fell silent or came back: what stands above the page about them is made anew. A round may end while a page
     is read from the database, so that it names one round and shows the brokers of the one before: a page is read
     again one round later, the first one where a banner and the round disagree. The list of brokers is no banner. */
  const brokerHosts = () =>
    [...document.querySelectorAll("[data-brokers]")].filter((host) => !host.closest("[data-part]"));
  const isShown = ({ hidden, classList }) => (hidden ? classList.contains("is-late") : !classList.contains("is-gone"));
  function agree([reached, total]) {
    const wanted = { "silent-brokers": reached > 0 && reached < total, unreachable: total > 0 && !reached };
    return brokerHosts().every((host) => !(host.id in wanted) || isShown(host) === wanted[host.id]);
  }
  let answered = root.dataset.answered,
    isSure = agree((answered ?? "").split("/").map(Number));
  async function banners(now) {
    if (now === answered && isSure) return;
    isSure = now === answered;
    answered = now;
    const hosts = brokerHosts();
    if (!hosts.length) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html", ...Tide.BY_TIMER } }).catch(() => null);
    if (!answer?.ok || answer.redirected) {
      isSure = false;
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const host of hosts) {
      const fresh = page.getElementById(host.id);
      if (!fresh) continue;
      const stood = Tide.stood(host);
      detach(host);
      host.replaceWith(fresh);
      attach(fresh);
      stood(fresh);
      Tide.tell(fresh);
    }
  }
  /* What a silent broker has refused can be tried again: the banner beside it says so in the place of the refusal. */
  function answeredAgain(roundAt) {
    for (const refusal of document.querySelectorAll("[data-until-answered]")) {
      if (roundAt <= Number(refusal.dataset.untilAnswered)) continue;
      refusal.nextElementSibling.hidden = false;
      refusal.remove();
    }
  }
  function round(rows) {
    const latest = rows.round;
    if (!latest) return;
    const endedAt = latest.started_at_ms + (latest.duration_ms || 0);
    partial = latest.brokers_answered < latest.brokers_total || Boolean(latest.error);
    unreached = latest.brokers_answered || !partial ? 0 : unreached || endedAt;
    baseless = 0;
    if (!unreached) lastAt = endedAt; // a round that reached no broker has no figures
    show();
    banners(`${latest.brokers_answered}/${latest.brokers_total}`);
    if (!partial) answeredAgain(latest.started_at_ms);
  }
  setInterval(show, 1000);
  /* A worker that died sends no frame: after a while without one its jobs wait for another. */
  setInterval(() => {
    for (const cell of document.querySelectorAll("[data-as=job]"))
      if (cell.job) Tide.put(cell, Tide.cell(cell.job, cell.dataset.field, "job", Tide.now()), "job");
  }, 1000);

  /* ---- lists: counts in the chips, and rows that have moved since the page was made ---- */
  function list(part) {
    const shown = new Map(); // key → row, of the rows on the page
    const moves = (changes, message) => {
      if (message.full) shown.clear();
      for (const [key, row] of Object.entries(changes)) {
        if (row === null) shown.delete(key);
        else shown.set(key, { ...shown.get(key), ...row });
      }
      note(part, { moves: moved(part, shown) });
    };
    return moves;
  }
  /* Behind all others it pushes none, and where it had to begin another line it would push the list: the next page has
     it. One that has emptied stays. */
  function showChip(chip) {
    const line = chip.parentElement,
      height = line.offsetHeight;
    line.append(chip);
    chip.hidden = false;
    chip.hidden = line.offsetHeight > height;
  }
  /* The collector counts every group, as the chips of an unfiltered list do; with a search they stay as the page was
     made. */
  function chips(part) {
    return ({ groups }) => {
      if (!groups) return;
      for (const figure of document.querySelectorAll("[data-chip]")) {
        const number = groups[figure.dataset.chip] || 0,
          chip = figure.closest(".chip");
        Tide.write(figure, Tide.count(number));
        if (number && chip.hidden) showChip(chip);
      }
      if (part.dataset.complete === "1")
        note(part, { news: Math.max(0, groups.ALL - part.querySelectorAll("tr[data-key]").length) });
    };
  }
  function note(part, changes) {
    const line = document.querySelector("[data-moved]");
    if (!line) return;
    const { moves = 0, news = 0 } = Object.assign((part.noted ||= {}), changes);
    line.hidden = !moves && !news;
    const figures = { news: Tide.count(news), moves: Tide.count(moves) };
    const text = Tide.text(
      news && moves
        ? gettext("%(news)s new, %(moves)s rows have moved since the page was made.")
        : news
          ? gettext("%(news)s new since the page was made.")
          : gettext("%(moves)s rows have moved since the page was made."),
      figures,
    );
    if (!line.hidden) Tide.write(line.querySelector("span"), text);
  }
  function moved(part, all) {
    const field = part.dataset.sort;
    if (!field) return 0;
    const sign = part.dataset.descending === "1" ? -1 : 1;
    const keys = [...part.querySelectorAll("tr[data-key]")].map((row) => row.dataset.key).filter((key) => all.has(key));
    const value = (key) => all.get(key)[field] ?? null;
    const before = (a, b) =>
      value(a) === value(b) ? 0 : value(a) === null ? 1 : value(b) === null ? -1 : value(a) < value(b) ? -sign : sign;
    const sorted = [...keys].sort(before);
    const count = keys.filter((key, i) => value(key) !== value(sorted[i])).length;
    return count < 2 ? 0 : count;
  }

  /* ---- the number beside Operations: jobs of this cluster that are not finished, and plans that ask this person to
     agree ---- */
  const FINAL = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]),
    jobs = new Map(),
    approvals = new Map();
  const asks = (row) => row.waits && row.created_by !== root.dataset.person && row.expires_at_ms > Tide.now();
  const keep = (known) => (changes, message) => {
    if (message.full) known.clear();
    for (const [id, row] of Object.entries(changes)) {
      if (row === null) known.delete(id);
      else known.set(id, row);
    }
    count();
  };
  function count() {
    const here = (row) => row.cluster === root.dataset.cluster;
    const open =
      [...jobs.values()].filter((row) => here(row) && !FINAL.has(row.state)).length +
      [...approvals.values()].filter((row) => here(row) && asks(row)).length;
    for (const mark of document.querySelectorAll("[data-jobs]")) Tide.write(mark, open ? Tide.count(open) : "");
  }

  /* An open plan that is applied in another tab or by another person is shown anew. A form of this page that was sent
     has its answer on the way. */
  const plan = document.querySelector("[data-open-plan]");
  function applied(changes) {
    const isApplied = Object.values(changes).some((row) => row?.plan === plan.dataset.openPlan);
    if (isApplied && !document.querySelector("form[data-sent]")) location.replace(plan.dataset.address);
  }

  /* ---- parts of the page: known by their markup, left when they are replaced ---- */
  const attached = new Map(); // part → [subject, handler] pairs
  /* `seqs`: the numbers of the subjects before a page was asked for that has just been made; its rows are not older. */
  function attach(within, seqs) {
    for (const part of within.querySelectorAll("[data-live-subject]")) {
      if (attached.has(part)) continue;
      const subject = part.dataset.liveSubject,
        keys = [part, ...part.querySelectorAll("[data-key]")].map((one) => one.dataset.key).filter(Boolean);
      const pairs = [[subject, apply(part), keys]];
      if (part.dataset.liveList) pairs.push([subject, list(part), keys]);
      if (part.dataset.liveList && !part.dataset.query && part.dataset.system !== "1")
        pairs.push([`c/${root.dataset.cluster}/counts`, chips(part), ["groups"]]);
      attached.set(part, pairs);
      for (const [name, handler, wanted] of pairs) on(name, handler, wanted, seqs?.get(name));
    }
  }
  function detach(within) {
    for (const [part, pairs] of attached) {
      if (!within.contains(part)) continue;
      attached.delete(part);
      for (const [subject, handler] of pairs) off(subject, handler);
    }
  }

  const live = {
    on,
    attach,
    detach,
    seqs: () => new Map([...subjects].map(([name, { seq }]) => [name, seq])),
    toggle() {
      paused = !paused;
      if (paused) socket?.close();
      else {
        retry = RETRY_FIRST;
        connect();
      }
      show();
    },
  };
  Tide.live = live;
  if (root.dataset.cluster) {
    on(`c/${root.dataset.cluster}/collector`, round);
    on("jobs", keep(jobs));
    on("approvals", keep(approvals));
    if (plan) on("jobs", applied);
  }
  attach(document);
  addEventListener("DOMContentLoaded", connect); // page scripts have named their subjects by then
  if (document.readyState === "complete") connect();
  show();
})();
