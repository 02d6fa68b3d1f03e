/* Smaller plots of a group's report, for report_plots.js: where it stood between lag and catch-up speed, over how many
   queues its backlog was spread, what came back and what ended as dead letters. */
(function () {
  "use strict";
  const { Plot, label, rule, colour } = Tide.drawing;
  const DAY = 86400000,
    SECOND = 1000;

  /* {times, topics, lag_ms, speed}: time lag at the end of an hour (logarithmic) by the seconds of the topic's time
     that were gained per second */
  function phase(canvas, { times, topics, lag_ms: lags, speed }) {
    const LOW = -2,
      HIGH = 4;
    const slow = Math.max(LOW, Math.min(0, ...speed)),
      fast = Math.min(HIGH, Math.max(2, ...speed)),
      top = Math.max(10 * SECOND, ...lags) * 1.3;
    const recent = times.at(-1) - DAY;
    let box = { x: 58, y: 28, w: 1, h: 1 };
    const x = (v) => box.x + ((Math.min(Math.max(v, slow), fast) - slow) / (fast - slow)) * box.w;
    const y = (ms) => box.y + box.h - (Math.log(Math.max(ms, SECOND) / SECOND) / Math.log(top / SECOND)) * box.h;
    return new Plot(canvas, {
      length: () => times.length,
      hit(px, py) {
        let best = null,
          near = 14 ** 2;
        times.forEach((_, i) => {
          const far = (x(speed[i]) - px) ** 2 + (y(lags[i]) - py) ** 2;
          if (far <= near) {
            near = far;
            best = i;
          }
        });
        return best;
      },
      draw(g, w, h, at) {
        box = { x: 58, y: 28, w: w - 74, h: h - 66 };
        label(g, gettext("Time lag at the end of the hour"), 0, 12, { fill: "fg-2" });
        for (const ms of [
          SECOND,
          10 * SECOND,
          60 * SECOND,
          600 * SECOND,
          3600 * SECOND,
          6 * 3600 * SECOND,
          DAY,
          7 * DAY,
        ]) {
          if (ms > top) break;
          rule(g, box.x, y(ms), box.x + box.w, y(ms), "chart-grid");
          const words = (ms === SECOND ? "≤ " : "") + Tide.duration(ms);
          label(g, words, box.x - 8, y(ms), { align: "right" });
        }
        for (let v = Math.ceil(slow); v <= fast; v += 1) {
          rule(g, x(v), box.y, x(v), box.y + box.h, v === 1 ? "line-2" : "chart-grid");
          label(g, `${v < 0 ? "−" : ""}${Math.abs(v)}`, x(v), box.y + box.h + 12, { align: "center" });
        }
        label(g, gettext("catch-up speed, s per s"), box.x + box.w, box.y + box.h + 28, {
          align: "right",
          fill: "fg-2",
        });
        label(g, gettext("falls behind"), x(1) - 8, box.y + 8, { align: "right", halo: true });
        label(g, gettext("catches up"), x(1) + 8, box.y + 8, { halo: true });
        times.forEach((t, i) => {
          g.beginPath();
          g.arc(x(speed[i]), y(lags[i]), i === at ? 5 : 3, 0, 7);
          g.fillStyle = colour(t >= recent ? "chart-1" : "chart-min");
          g.fill();
          if (i === at) {
            g.strokeStyle = colour("chart-cross");
            g.lineWidth = 2;
            g.stroke();
          }
        });
      },
      read: (i) => ({
        x: x(speed[i]),
        y: 30,
        title: Tide.moment(times[i], Tide.now()),
        rows: [
          ["", topics[i], ""],
          ["", gettext("time lag at the end"), Tide.duration(lags[i])],
          [
            "",
            gettext("catch-up speed"),
            Tide.text(gettext("%(speed)s s per s"), { speed: speed[i].toFixed(2).replace("-", "−") }),
          ],
        ],
      }),
    });
  }

  /* {times, topics: [{topic, effective, queues}]}: a panel each, one time axis */
  function skew(canvas, { times, topics }) {
    canvas.parentElement.style.setProperty("--rows", topics.length);
    const panels = topics.map((each) => ({
      title: each.topic,
      kind: "count",
      format: (v) => String(Math.round(v * 10) / 10),
      series: [
        {
          label: gettext("effective queues"),
          swatch: "c1",
          tone: "chart-1",
          fill: "chart-fill",
          values: each.effective,
        },
        { label: gettext("all queues"), swatch: "cmin", tone: "chart-min", dash: [4, 3], values: each.queues },
      ],
    }));
    Tide.timeSeries(canvas, { times, panels });
  }

  /* {consumed, retried, dead}: what was confirmed, sent back, given up; dead null: no dead-letter topic was seen */
  function ways(canvas, { consumed, retried, dead }) {
    const given = dead ?? 0,
      most = Math.max(consumed, retried, 1),
      NODE = 10,
      LEAST = 1.5;
    const links = [
      { word: gettext("confirmed and done"), count: Math.max(0, consumed - retried), of: consumed, tone: "ok-mark" },
      { word: gettext("sent back to be retried"), count: retried, of: consumed, tone: "warn-mark" },
      { word: gettext("done after a retry"), count: Math.max(0, retried - given), of: retried, tone: "ok-mark" },
      { word: gettext("ended as dead letters"), count: given, of: retried, tone: "bad-mark" },
    ].map((link) => ({ ...link, shape: null }));
    let box = { x: 0, y: 0, w: 1, h: 1 };
    const thick = (count) => (count ? Math.max((count / most) * box.h, LEAST) : 0);
    const share = ({ count, of }) => (of ? Tide.percent(count / of) : "–");
    function ribbon(g, link, [x1, y1], [x2, y2], isAt) {
      const half = (x1 + x2) / 2,
        t = thick(link.count);
      link.shape = { x1, x2, top: Math.min(y1, y2), bottom: Math.max(y1, y2) + t };
      if (!t) return;
      const path = new Path2D();
      path.moveTo(x1, y1);
      path.bezierCurveTo(half, y1, half, y2, x2, y2);
      path.lineTo(x2, y2 + t);
      path.bezierCurveTo(half, y2 + t, half, y1 + t, x1, y1 + t);
      path.closePath();
      link.shape.path = path;
      g.globalAlpha = isAt ? 0.75 : 0.4;
      g.fillStyle = colour(link.tone);
      g.fill(path);
      g.globalAlpha = 1;
    }
    function node(g, x, y, count, tone) {
      if (count) {
        g.fillStyle = colour(tone);
        g.fillRect(x, y, NODE, thick(count));
      }
    }
    return new Plot(canvas, {
      length: () => links.length,
      hit(px, py) {
        const g = canvas.getContext("2d"),
          ratio = window.devicePixelRatio || 1;
        const found = links.findLastIndex(
          ({ shape }) =>
            shape?.path &&
            (g.isPointInPath(shape.path, px * ratio, py * ratio) ||
              (px >= shape.x1 &&
                px <= shape.x2 &&
                shape.bottom - shape.top < 14 &&
                Math.abs(py - (shape.top + shape.bottom) / 2) < 7)),
        );
        return found < 0 ? null : found;
      },
      draw(g, w, h, at) {
        box = { x: 0, y: 30, w, h: Math.max(30, h - 110) };
        const left = 2,
          middle = w * 0.48,
          right = w - NODE - 2,
          retryY = box.y + box.h + 26 - thick(retried) / 4,
          deadY = h - 20 - thick(given);
        ribbon(g, links[0], [left + NODE, box.y], [right, box.y], at === 0);
        ribbon(g, links[1], [left + NODE, box.y + thick(links[0].count)], [middle, retryY], at === 1);
        ribbon(g, links[2], [middle + NODE, retryY], [right, box.y + thick(links[0].count) + 2], at === 2);
        ribbon(g, links[3], [middle + NODE, retryY + thick(links[2].count)], [right, deadY], at === 3);
        node(g, left, box.y, consumed, "chart-1");
        node(g, middle, retryY, retried, "warn-mark");
        node(g, right, box.y, Math.max(consumed, 1), "ok-mark");
        node(g, right, deadY, given, "bad-mark");
        const words = (text, count) =>
          Tide.text(gettext("%(what)s %(count)s"), { what: text, count: Tide.count(count) });
        label(g, words(gettext("Confirmed"), consumed), left, 14, { fill: "fg-1" });
        label(
          g,
          words(gettext("Retries"), retried) + (retried ? ` · ${share(links[1])}` : ""),
          middle + NODE / 2,
          retryY + thick(retried) + 14,
          { align: "center", fill: "fg-1", halo: true },
        );
        label(g, gettext("Done"), w - 2, 14, { align: "right", fill: "fg-1" });
        label(
          g,
          dead === null
            ? gettext("Dead letters unknown: no such topic was seen")
            : words(gettext("Dead letters"), given),
          w - 2,
          h - 8,
          { align: "right", fill: "fg-1", halo: true },
        );
      },
      read(i) {
        const { shape, word, count } = links[i];
        return {
          x: shape ? (shape.x1 + shape.x2) / 2 : 0,
          y: shape ? Math.max(0, shape.top - 10) : 0,
          title: word,
          rows: [
            ["", gettext("messages"), Tide.count(count)],
            ["", i > 1 ? gettext("of the retries") : gettext("of the confirmed"), share(links[i])],
          ],
        };
      },
    });
  }

  Tide.groupPlots = { phase, skew, ways };
})();
