/* Group page: time lag and lag on one time axis; at the shortest range new rounds are drawn as they come. */
(function () {
  "use strict";
  /* Somebody looks: the collector reads pulled offsets of this group in every round while the page is in front. */
  const host = document.querySelector("[data-watch]"), WATCH_EVERY = 60000;
  function watch() {
    if (document.hidden) return;
    const token = document.querySelector("input[name=csrfmiddlewaretoken]").value;
    fetch(host.dataset.watch, { method: "POST", headers: { "X-CSRFToken": token } }).catch(() => {}); // the next minute tries again
  }
  if (host) { watch(); setInterval(watch, WATCH_EVERY); document.addEventListener("visibilitychange", watch); }

  const canvas = document.getElementById("lag-chart"), source = document.getElementById("lag-history");
  if (!canvas || !source) return;
  const history = JSON.parse(source.textContent);
  const data = {
    times: history.times,
    events: (history.events || []).map((event) => ({ ...event, tone: event.mark === "R" ? "chart-4" : "chart-3" })),
    panels: [
      { title: "Time lag, worst queue", kind: "duration", format: Tide.duration, weight: 1.25, highWater: "high water", series: [{ label: "time lag", swatch: "c1", tone: "chart-1", fill: "chart-fill", values: history.time_lag_ms, bounds: history.time_lag_lower_bound || history.lower_bound }] },
      { title: "Lag, messages", kind: "count", format: (v, full) => (full ? Tide.count(v) : Tide.compact(v)), series: [{ label: "lag", swatch: "c2", tone: "chart-2", fill: "chart-fill-2", values: history.lag, bounds: history.lower_bound }] },
    ],
  };
  const plot = Tide.timeSeries(canvas, data);
  const range = new URLSearchParams(location.search).get("range") || "1h";
  if (range !== "1h") return;
  const summary = {};
  Tide.live.on(canvas.closest("[data-live-subject]").dataset.liveSubject, (rows) => {
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
  });
})();
