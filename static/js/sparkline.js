/* Sparklines of lists on the canvas of charts.js: one value per minute of the last hour. */
(function () {
  "use strict";
  const { Plot, line, hatch, rule, colour, maxOf } = Tide.drawing;

  /* The points without minutes between two rounds: where rounds are minutes apart, only longer silence is a gap. */
  function betweenGaps(points) {
    const known = points.flatMap(([, y], i) => (y === null ? [] : [i]));
    const apart = known.slice(1).map((at, n) => at - known[n]),
      usual = apart.toSorted((a, b) => a - b)[apart.length >> 1] || 1;
    const isGap = (i) => {
      const after = known.findIndex((at) => at > i);
      if (after === 0 || !known.length) return true;
      return after < 0 ? i - known.at(-1) >= usual : apart[after - 1] > usual;
    };
    return points.filter(([, y], i) => y !== null || isGap(i));
  }
  function sparkline(canvas) {
    new Plot(canvas, {
      draw(g, w, h) {
        const values = [...canvas.dataset.trend].map((each) => (each === "-" ? null : Tide.LEVELS.indexOf(each))),
          tone = canvas.dataset.tone || "chart-1";
        const slots = Math.max(values.length, Number(canvas.dataset.slots || 60)),
          first = slots - values.length,
          base = h - 2;
        if (!values.length) {
          rule(g, 1, base, w - 4, base, "chart-axis", [1, 3]);
          return;
        }
        const top = Math.max(maxOf([values]) * 1.12, 1e-9);
        const points = betweenGaps(
          values.map((v, i) => [
            1 + ((first + i) / (slots - 1)) * (w - 5),
            v === null ? null : base - (v / top) * (h - 5),
          ]),
        );
        // the span is an hour, however much of it is known: a dotted floor before data begin
        if (first > 0) rule(g, 1, base, points[0][0], base, "chart-axis", [1, 3]);
        g.globalAlpha = 0.16;
        line(g, points, "transparent", { fill: colour(tone), base: h - 1, width: 0.01 });
        g.globalAlpha = 1;
        line(g, points, colour(tone), { width: 1.25 });
        const [x, y] = points.at(-1);
        if (y === null) {
          const from = points.findLast((p) => p[1] !== null)?.[0] ?? 0;
          hatch(g, from, 2, w - from, h - 4);
          return;
        }
        g.beginPath();
        g.arc(x, y, 2, 0, 7);
        g.fillStyle = colour(tone);
        g.fill();
      },
    });
    canvas.dataset.drawn = "1";
    Object.assign(canvas, { role: "img", ariaLabel: gettext("last hour") });
  }
  const sparklines = (within = document) =>
    within.querySelectorAll("canvas[data-trend]:not([data-drawn])").forEach(sparkline);

  Tide.sparklines = sparklines;
  sparklines();
})();
