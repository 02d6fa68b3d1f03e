/* Broker page and overview: the last day's traffic, and of one broker its disk, how long storing takes and what it
   holds back. */
(function () {
  "use strict";
  const canvas = document.getElementById("broker-chart"),
    source = document.getElementById("broker-history");
  if (!canvas || !source) return;
  const percent = (ratio) => Tide.percent(ratio);
  const traffic = (history) => ({
    title: gettext("Messages per second"),
    kind: "rate",
    format: (v, full) => (full ? Tide.rate(v) : Tide.compact(v)),
    weight: 1.25,
    series: [
      { label: pgettext("messages", "in"), swatch: "c1", tone: "chart-1", fill: "chart-fill", values: history.in_rate },
      { label: pgettext("messages", "out"), swatch: "c2", tone: "chart-2", values: history.out_rate },
    ],
  });
  const own = (history) => [
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
  const waiting = (history) => ({
    title: gettext("Held back: delayed, for a set time (dashed), half messages (dotted)"),
    kind: "count",
    format: (v, full) => (full ? Tide.count(v) : Tide.compact(v)),
    series: [
      { label: gettext("delayed"), swatch: "c1", tone: "chart-1", values: history.delayed },
      { label: gettext("for a set time"), swatch: "c2", tone: "chart-2", values: history.timed, dash: [6, 3] },
      { label: gettext("half, at most"), swatch: "c3", tone: "chart-3", values: history.half, dash: [2, 3] },
    ],
  });
  const hasSome = (panel, test) => panel.series.some((one) => one.values.some(test));
  Tide.history(canvas, source, (history) => {
    const panels = [traffic(history)];
    if (!canvas.dataset.whole) {
      panels.push(...own(history).filter((panel) => hasSome(panel, (value) => value !== null)));
      panels.push(...[waiting(history)].filter((panel) => hasSome(panel, (value) => value > 0)));
    }
    return {
      times: history.times,
      panels,
      begins: gettext("Read once a minute: the line begins within 4 minutes."),
    };
  });
})();
