/* Broker page and overview: the last day's traffic, and of one broker its disk, how long storing takes and what it
   holds back. */
(function () {
  "use strict";
  const canvas = document.getElementById("broker-chart"),
    source = document.getElementById("broker-history");
  if (!canvas || !source) return;
  const history = JSON.parse(source.textContent);
  const percent = (ratio) => Tide.percent(ratio);
  const traffic = {
    title: gettext("Messages per second"),
    kind: "rate",
    format: (v, full) => (full ? Tide.rate(v) : Tide.compact(v)),
    weight: 1.25,
    series: [
      { label: pgettext("messages", "in"), swatch: "c1", tone: "chart-1", fill: "chart-fill", values: history.in_rate },
      { label: pgettext("messages", "out"), swatch: "c2", tone: "chart-2", values: history.out_rate },
    ],
  };
  const own = [
    {
      title: gettext("Disk used"),
      kind: "ratio",
      format: percent,
      series: [{ label: gettext("disk"), swatch: "c3", tone: "chart-3", values: history.disk_ratio }],
    },
    {
      title: /* xgettext:no-javascript-format */ gettext("Put, slowest 1 % of each minute"),
      kind: "duration",
      format: Tide.latency,
      series: [{ label: gettext("put"), swatch: "c4", tone: "chart-4", values: history.put_p99_ms }],
    },
  ];
  const waiting = {
    title: gettext("Held back: delayed, for a set time (dashed), half messages (dotted)"),
    kind: "count",
    format: (v, full) => (full ? Tide.count(v) : Tide.compact(v)),
    series: [
      { label: gettext("delayed"), swatch: "c1", tone: "chart-1", values: history.delayed },
      { label: gettext("for a set time"), swatch: "c2", tone: "chart-2", values: history.timed, dash: [6, 3] },
      { label: gettext("half, at most"), swatch: "c3", tone: "chart-3", values: history.half, dash: [2, 3] },
    ],
  };
  const panels = canvas.dataset.whole
    ? [traffic]
    : [traffic, ...own.filter((panel) => panel.series[0].values.some((value) => value !== null))];
  if (!canvas.dataset.whole && waiting.series.some((one) => one.values.some((value) => value > 0)))
    panels.push(waiting);
  Tide.timeSeries(canvas, Tide.beginWithLine({ times: history.times, panels }));
})();
