/* Sparklines of lists: one value per minute of the last hour, drawn into the <svg data-trend> that a cell holds. As
   SVG they are paint among paint: each canvas of a long list is a layer of its own, and every frame sorts them all. */
(function () {
  "use strict";
  const W = 76, // as in table.css
    H = 22,
    SLOTS = 60,
    FLOOR = H - 2;

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
  /* Stretches between gaps. */
  function runsOf(points) {
    const runs = [[]];
    for (const point of points) {
      if (point[1] !== null) runs.at(-1).push(point);
      else if (runs.at(-1).length) runs.push([]);
    }
    return runs.filter((run) => run.length);
  }
  function hatch(from) {
    let strokes = "";
    for (let x = 4 - H; x < W - from; x += 6) strokes += `M${x} ${H - 4}l${H - 4} ${4 - H}`;
    return `<svg x="${from}" y="2" width="${W - from}" height="${H - 4}"><path class="gap" d="${strokes}"/></svg>`;
  }
  function drawing(heights) {
    const values = [...heights].map((each) => (each === "-" ? null : Tide.LEVELS.indexOf(each)));
    const floor = (to) => `<path class="floor" d="M1 ${FLOOR + 0.5}H${to}"/>`;
    if (!values.length) return floor(W - 4);
    const first = Math.max(0, SLOTS - values.length),
      top = Math.max(...values) * 1.12 || 1,
      round = (v) => Math.round(v * 10) / 10;
    const points = betweenGaps(
      values.map((v, i) => [
        round(1 + ((first + i) / (first + values.length - 1)) * (W - 5)),
        v === null ? null : round(FLOOR - (v / top) * (H - 5)),
      ]),
    );
    const runs = runsOf(points),
      lines = runs.filter((run) => run.length > 1),
      last = points.at(-1),
      isKnown = last[1] !== null,
      dots = new Set([...runs.filter((run) => run.length === 1).flat(), ...(isKnown ? [last] : [])]);
    const area = lines.map((run) => `M${run[0][0]} ${H - 1}L${run.join("L")}V${H - 1}`).join(""),
      stroke = lines.map((run) => `M${run.join("L")}`).join("");
    return [
      // the span is an hour, however much of it is known: a dotted floor before data begin
      first > 0 ? floor(points[0][0]) : "",
      stroke && `<path class="area" d="${area}"/><path d="${stroke}"/>`,
      ...[...dots].map(([x, y]) => `<circle cx="${x}" cy="${y}" r="2"/>`),
      isKnown ? "" : hatch(points.findLast(([, y]) => y !== null)?.[0] ?? 0),
    ].join("");
  }
  function sparkline(svg) {
    svg.innerHTML = drawing(svg.dataset.trend);
    svg.setAttribute("role", "img");
    svg.ariaLabel = gettext("last hour");
  }
  Tide.sparklines = (within = document) => within.querySelectorAll("[data-trend]:not([role])").forEach(sparkline);
  Tide.sparklines();
})();
