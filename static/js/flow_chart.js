/* Cumulative flow on the canvas of charts.js: {times, produced, pulled, committed, stored_from}, messages since the
   first time. Between the lines the vertical stroke is lag, the horizontal one latency. */
(function () {
  "use strict";
  const { Plot, line, hatchGaps, label, rule, colour, ticks, timeAxis } = Tide.drawing;

  function flow(canvas, data) {
    const TOP = 30,
      AXIS = 24,
      NEAR = 0.25; // the oldest stored message is drawn when it is this near below
    let box = { x: 66, w: 1, y: TOP, h: 1 },
      low = 0,
      high = 1;
    const first = () => data.times[0],
      last = () => data.times.at(-1);
    const x = (t) => box.x + ((t - first()) / Math.max(1, last() - first())) * box.w;
    const y = (v) => box.y + box.h - ((v - low) / (high - low)) * box.h;
    const known = (values) => values.filter((v) => v !== null);
    const signed = (v) => (v > 0 ? "+" : "") + Tide.compact(v);

    function range() {
      const drawn = [...known(data.produced), ...known(data.committed)];
      high = drawn.reduce((m, v) => Math.max(m, v), 1);
      low = drawn.reduce((m, v) => Math.min(m, v), 0);
      const oldest = known(data.stored_from).reduce((m, v) => Math.min(m, v), Infinity);
      if (oldest < low && low - oldest <= NEAR * (high - low)) low = oldest;
      high += (high - low) * 0.08;
    }
    function axis(g) {
      const step = ticks(high - low, "count", Math.max(2, box.h / 40))[1] || 1;
      for (let v = Math.ceil(low / step) * step; v <= high; v += step) {
        rule(g, box.x, y(v), box.x + box.w, y(v), v === 0 ? "line-2" : "chart-grid");
        label(g, signed(v), box.x - 8, y(v), { align: "right" });
      }
    }
    const points = (values) => values.map((v, i) => [x(data.times[i]), v === null ? null : y(v)]);
    function between(g) {
      // the area of lag, interrupted where a line is
      g.fillStyle = colour("chart-fill");
      for (let i = 1; i < data.times.length; i++) {
        const corners = [
          [i - 1, data.produced],
          [i, data.produced],
          [i, data.committed],
          [i - 1, data.committed],
        ];
        if (corners.some(([n, values]) => values[n] === null)) continue;
        g.beginPath();
        corners.forEach(([n, values], k) => g[k ? "lineTo" : "moveTo"](x(data.times[n]), y(values[n])));
        g.fill();
      }
    }
    function draw(g, w, h, at) {
      if (data.times.length < 2) {
        label(g, data.begins || gettext("The line begins with the second reading."), w / 2, h / 2, {
          align: "center",
          fill: "fg-3",
        });
        return;
      }
      box = { x: 66, w: w - 78, y: TOP, h: h - TOP - AXIS };
      range();
      label(g, Tide.text(gettext("Messages since %(time)s"), { time: Tide.moment(first(), Tide.now()) }), 0, 17, {
        fill: "fg-2",
      });
      timeAxis(g, box, first(), last(), true);
      axis(g);
      hatchGaps(g, data.committed, data.times, x, box);
      between(g);
      // where lines lie on one another each is still seen: produced is wide, pulled is dotted
      for (const [values, tone, dash, width] of [
        [data.stored_from, "chart-min", [4, 3]],
        [data.produced, "chart-1", [], 4],
        [data.committed, "chart-3"],
        [data.pulled, "fg-1", [2, 5]],
      ]) {
        g.save();
        g.beginPath();
        g.rect(box.x, box.y, box.w, box.h + 1);
        g.clip();
        line(g, points(values), colour(tone), { dash, width });
        g.restore();
      }
      if (at !== null && at < data.times.length) strokes(g, at);
    }
    function strokes(g, i) {
      const { produced, committed } = data;
      if (produced[i] === null || committed[i] === null) return;
      const since = entered(i),
        px = x(data.times[i]);
      g.strokeStyle = colour("chart-cross");
      g.lineWidth = 1;
      g.setLineDash([]);
      g.beginPath();
      g.moveTo(px, y(produced[i]));
      g.lineTo(px, y(committed[i]));
      g.lineTo(x(since ?? first()), y(committed[i]));
      g.stroke();
      g.fillStyle = colour("chart-cross");
      for (const v of [produced[i], committed[i]]) {
        g.beginPath();
        g.arc(px, y(v), 2.5, 0, 7);
        g.fill();
      }
    }
    function entered(i) {
      // when the message was produced that is committed now; null: before the chart begins
      const { times, produced, committed } = data;
      let j = i;
      while (j >= 0 && (produced[j] === null || produced[j] > committed[i])) j--;
      if (j < 0) return null;
      if (j === i || produced[j + 1] === null || produced[j + 1] === produced[j]) return times[j];
      return times[j] + ((committed[i] - produced[j]) / (produced[j + 1] - produced[j])) * (times[j + 1] - times[j]);
    }
    function hit(px) {
      if (px < box.x - 6 || px > box.x + box.w + 6 || data.times.length < 2) return null;
      const t = first() + ((px - box.x) / box.w) * (last() - first());
      const after = data.times.findIndex((each) => each >= t);
      return after <= 0 ? Math.max(after, 0) : t - data.times[after - 1] < data.times[after] - t ? after - 1 : after;
    }
    function read(i) {
      const messages = (v) => `${Tide.count(v)} ${gettext("msgs")}`;
      const number = (v) => (v === null ? gettext("no data") : (v > 0 ? "+" : "") + messages(v));
      const { produced, pulled, committed } = data,
        lag = produced[i] === null || committed[i] === null ? null : produced[i] - committed[i];
      const since = lag === null ? undefined : entered(i);
      const rows = [["c1", gettext("produced"), number(produced[i])]];
      if (pulled[i] !== null) rows.push(["cdots", gettext("pulled"), number(pulled[i])]);
      rows.push(["c3", gettext("committed"), number(committed[i])]);
      if (lag !== null)
        rows.push(
          ["", gettext("lag ↕"), messages(lag)],
          [
            "",
            gettext("latency ↔"),
            lag === 0
              ? Tide.duration(0)
              : since === null
                ? `> ${Tide.duration(data.times[i] - first())}`
                : Tide.duration(data.times[i] - since),
          ],
        );
      if (pulled[i] !== null && committed[i] !== null)
        rows.push(["", gettext("in flight"), messages(Math.max(0, pulled[i] - committed[i]))]);
      return { x: x(data.times[i]), y: 30, title: Tide.momentOf(data.times[i]), rows };
    }
    return new Plot(canvas, { draw, hit, read, length: () => data.times.length });
  }

  Tide.flow = flow;
})();
