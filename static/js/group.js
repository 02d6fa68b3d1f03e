/* Group page: time lag and lag on one time axis, at the shortest range with new rounds as they come; cumulative
   flow. */
(function () {
  "use strict";
  /* Somebody looks: the collector reads pulled offsets of this group in every round while the page is in front. */
  const host = document.querySelector("[data-watch]"),
    WATCH_EVERY = 60000;
  function watch() {
    if (document.hidden) return;
    const token = document.querySelector("input[name=csrfmiddlewaretoken]").value;
    const headers = { "X-CSRFToken": token, ...Tide.BY_TIMER };
    fetch(host.dataset.watch, { method: "POST", headers }).catch(() => {}); // the next minute tries again
  }
  if (host) {
    watch();
    setInterval(watch, WATCH_EVERY);
    document.addEventListener("visibilitychange", watch);
  }

  /* ---- cumulative flow: asked for after the page is there, and again while the page is visible ---- */
  const flowHost = document.querySelector("[data-flow]"),
    FLOW_EVERY = 30000,
    FLOW_POINTS = 300,
    SHORTEST = 3600000;
  async function drawFlow(flow) {
    if (document.hidden) return flow;
    const span = Number(flowHost.dataset.span),
      now = Math.round(Tide.now());
    const answer = await fetch(`${flowHost.dataset.flow}?from_ms=${now - span}&to_ms=${now}&points=${FLOW_POINTS}`, {
      headers: Tide.BY_TIMER,
    }).catch(() => null);
    if (!answer?.ok) {
      // the next time tries again
      flowHost.classList.remove("is-waiting");
      if (!flow)
        document.getElementById("flow-note").textContent = Tide.text(
          gettext("not read: %(why)s; tried again every 30 s"),
          {
            why: answer
              ? Tide.text(gettext("the console answered %(status)s"), { status: answer.status })
              : gettext("the console does not answer"),
          },
        );
      return flow;
    }
    flowHost.classList.remove("is-waiting");
    const data = await answer.json(),
      { queues, queues_total: total } = data;
    const oldest = data.stored_from.findLast((v) => v !== null),
      committed = data.committed.findLast((v) => v !== null);
    document.getElementById("flow-note").textContent = Tide.text(
      queues === total ? gettext("%(span)s, %(total)s queues") : gettext("%(span)s, %(queues)s of %(total)s queues"),
      {
        span: Tide.duration(data.times.length ? data.times.at(-1) - data.times[0] : span),
        queues: Tide.count(queues),
        total: Tide.count(total),
      },
    );
    document.getElementById("flow-stored").textContent =
      oldest === undefined || committed === undefined
        ? gettext("oldest stored")
        : Tide.text(gettext("oldest stored, %(number)s below"), {
            number: Tide.compact(committed - oldest),
          });
    if (!flow) return { data, plot: Tide.flow(document.getElementById("flow-chart"), data) };
    Object.assign(flow.data, data);
    flow.plot.paint();
    return flow;
  }
  async function keepFlow() {
    let flow = await drawFlow(null);
    const once = Number(flowHost.dataset.span) > SHORTEST; // a day's lines do not change while one looks
    setInterval(async () => {
      if (!once || !flow) flow = await drawFlow(flow);
    }, FLOW_EVERY);
  }
  if (flowHost) keepFlow();

  const canvas = document.getElementById("lag-chart"),
    source = document.getElementById("lag-history");
  if (!canvas || !source) return;
  function draw(history) {
    const data = {
      times: history.times,
      events: (history.events || []).map((event) => ({
        ...event,
        tone:
          { R: "chart-4", D: "chart-3", M: "fg-3", B: "offline-fg", L: "bad-fg", Q: "bad-fg" }[event.mark] || "chart-2",
      })),
      panels: [
        {
          title: history.is_queue ? gettext("Time lag") : gettext("Time lag, worst queue"),
          kind: "duration",
          format: Tide.duration,
          weight: 1.25,
          highWater: gettext("high water"),
          series: [
            {
              label: gettext("time lag"),
              swatch: "c1",
              tone: "chart-1",
              fill: "chart-fill",
              values: history.time_lag_ms,
              bounds: history.time_lag_lower_bound || history.lower_bound,
            },
          ],
        },
        {
          title: gettext("Lag, messages"),
          kind: "count",
          unit: gettext("msgs"),
          format: (v, full) => (full ? Tide.count(v) : Tide.compact(v)),
          series: [
            {
              label: gettext("lag"),
              swatch: "c2",
              tone: "chart-2",
              fill: "chart-fill-2",
              values: history.lag,
              bounds: history.lower_bound,
            },
          ],
        },
      ],
    };
    const begun = Tide.beginWithLine(data);
    const plot = Tide.timeSeries(canvas, begun);
    const range = new URLSearchParams(location.search).get("range") || "1h";
    const live = canvas.closest("[data-live-subject]"); // a page of one queue has none
    if (range !== "1h" || !live) return;
    const summary = {};
    Tide.live.on(
      live.dataset.liveSubject,
      (rows) => {
        if (!rows.summary) return;
        Object.assign(summary, rows.summary);
        const at = summary.read_at_ms;
        if (!at || at <= (data.times.at(-1) || 0)) return;
        data.times.push(at);
        data.panels[0].series[0].values.push(summary.time_lag_ms ?? null);
        data.panels[0].series[0].bounds?.push(Boolean(summary.time_lag_lower_bound));
        data.panels[1].series[0].values.push(summary.lag ?? null);
        data.panels[1].series[0].bounds?.push(Boolean(summary.lag_lower_bound));
        plot.paint();
      },
      ["summary"],
    ); // without keys all queues would come, of which a page shows some
  }
  /* The lag of many queues is not in the page. */
  async function begin() {
    const history = JSON.parse(source.textContent);
    if (!history.times) {
      const now = Math.round(Tide.now()),
        window = `from_ms=${now - canvas.dataset.span}&to_ms=${now}`;
      const answer = await fetch(`${canvas.dataset.lag}?${window}`, { headers: Tide.BY_TIMER }).catch(() => null);
      if (!answer?.ok) return setTimeout(begin, FLOW_EVERY); // the next time tries again
      Object.assign(history, await answer.json());
      canvas.parentElement.classList.remove("is-waiting");
    }
    draw(history);
  }
  begin();
})();
