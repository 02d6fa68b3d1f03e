/* Broker page and overview: the last day's traffic, and of one broker its disk, how long storing takes and what it
   holds back. */
(function () {
  "use strict";
  const canvas = document.getElementById("broker-chart"),
    source = document.getElementById("broker-history");
  if (!canvas || !source) return;
  const percent = (ratio) => Tide.percent(ratio);
  /* What is usual for a figure: a band, and words after its title. */
  function usual(history, name, title, format) {
    const [low, high] = history.usual?.[name] || [];
    if (low === undefined) return { title };
    const words = Tide.text(gettext("usually %(low)s to %(high)s"), { low: format(low), high: format(high) });
    return { title: `${title} · ${words}`, band: { from: low, upTo: high, tone: "ok-bg" } };
  }
  /* Of several brokers, where not all were sampled: a lower bound. */
  const partOf = (pair) =>
    pair && Tide.text(gettext("of %(answered)s of %(brokers)s brokers"), { answered: pair[0], brokers: pair[1] });
  const traffic = (history) => ({
    ...usual(history, "in_rate", gettext("Messages per second"), Tide.rate),
    kind: "rate",
    unit: gettext("/s"),
    format: Tide.rateLabel,
    weight: 1.25,
    note: (i) => partOf(history.sampled?.[i]),
    series: [
      { label: pgettext("messages", "in"), swatch: "c1", tone: "chart-1", fill: "chart-fill", values: history.in_rate },
      { label: pgettext("messages", "out"), swatch: "c2", tone: "chart-2", values: history.out_rate },
    ].map((one) => ({ ...one, bounds: history.sampled })),
  });
  const HOUR = 3600000,
    AHEAD = 0.25; // of the time shown
  const own = (history) => [
    {
      title: gettext("Disk used"),
      kind: "ratio",
      format: percent,
      max: 1,
      limits: history.limits,
      forecast: history.disk_per_h !== null && { perMs: history.disk_per_h / HOUR, tone: "chart-3" },
      series: [{ label: gettext("disk"), swatch: "c3", tone: "chart-3", values: history.disk_ratio }],
    },
    {
      ...usual(
        history,
        "put_p99_ms",
        /* xgettext:no-javascript-format */ gettext("Put, slowest 1 % of each minute"),
        Tide.latency,
      ),
      kind: "latency",
      format: Tide.latency,
      series: [{ label: gettext("put"), swatch: "c4", tone: "chart-4", values: history.put_p99_ms }],
    },
  ];
  const waiting = (history) => ({
    title: gettext("Held back: delayed, timed (dashed), half (dotted)"),
    kind: "count",
    unit: gettext("msgs"),
    format: (v, full) => (full ? Tide.count(v) : Tide.compact(v)),
    series: [
      { label: gettext("delayed"), swatch: "c1", tone: "chart-1", values: history.delayed },
      { label: gettext("timed"), swatch: "c2", tone: "chart-2", values: history.timed, dash: [6, 3] },
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
      ahead: panels.some((panel) => panel.forecast) && AHEAD * (history.times.at(-1) - history.times[0]),
      begins: gettext("Read once a minute: the line begins within 4 minutes."),
    };
  });
})();
