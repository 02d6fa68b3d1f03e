/* Topic page: what was written in the last hour. */
(function () {
  "use strict";
  const canvas = document.getElementById("topic-chart"),
    source = document.getElementById("topic-history");
  if (!canvas || !source) return;
  const [times, rates] = JSON.parse(source.textContent);
  const written = {
    label: pgettext("messages", "in"),
    swatch: "c1",
    tone: "chart-1",
    fill: "chart-fill",
    values: rates,
  };
  const panel = {
    title: gettext("Messages per second"),
    kind: "rate",
    format: (v, full) => (full ? Tide.rate(v) : Tide.compact(v)),
    series: [written],
  };
  Tide.timeSeries(canvas, { times, panels: [panel] });
})();
