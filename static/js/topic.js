/* Topic page: what was written in the last hour. */
(function () {
  "use strict";
  const canvas = document.getElementById("topic-chart");
  if (!canvas) return;
  Tide.history(canvas, document.getElementById("topic-history"), ([times, rates]) => {
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
      unit: gettext("/s"),
      format: Tide.rateLabel,
      series: [written],
    };
    return { times, panels: [panel], begins: gettext("Read once a minute: the line begins within 2 minutes.") };
  });
})();
