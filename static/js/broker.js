/* Broker page and overview: the last day's traffic, and of one broker its disk and how long storing takes. */
(function () {
  "use strict";
  const canvas = document.getElementById("broker-chart"), source = document.getElementById("broker-history");
  if (!canvas || !source) return;
  const history = JSON.parse(source.textContent);
  const percent = (ratio) => Tide.percent(ratio);
  const traffic = {
    title: gettext("Messages per second"), kind: "rate", format: (v, full) => (full ? Tide.rate(v) : Tide.compact(v)), weight: 1.25,
    series: [
      { label: pgettext("messages", "in"), swatch: "c1", tone: "chart-1", fill: "chart-fill", values: history.in_rate },
      { label: pgettext("messages", "out"), swatch: "c2", tone: "chart-2", values: history.out_rate },
    ],
  };
  const own = [
    { title: gettext("Disk used"), kind: "ratio", format: percent, series: [{ label: gettext("disk"), swatch: "c3", tone: "chart-3", values: history.disk_ratio }] },
    { title: /* xgettext:no-javascript-format */ gettext("Put, slowest 1 % of each minute"), kind: "duration", format: Tide.latency, series: [{ label: gettext("put"), swatch: "c4", tone: "chart-4", values: history.put_p99_ms }] },
  ];
  const panels = canvas.dataset.whole ? [traffic] : [traffic, ...own.filter((panel) => panel.series[0].values.some((value) => value !== null))];
  Tide.timeSeries(canvas, { times: history.times, panels });
})();
