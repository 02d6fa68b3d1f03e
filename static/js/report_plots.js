/* Plots of reports on the canvas of charts.js: heat map, latency distribution, drain fan, episodes on one time axis.
   Every host carries its data in a JSON script; what is null was not observed: hatched, never bridged. */
(function () {
  "use strict";
  const { Plot, line, hatch, label, rule, colour, timeAxis, valueAxis } = Tide.drawing;
  const MINUTE = 60000,
    HOUR = 60 * MINUTE,
    DAY = 24 * HOUR;
  const CELL_MAX = 64; // a few hours do not become walls of colour
  const HEAT_BREAKS = [5000, 10000, 30000, 60000, 300000, 1800000]; // time lag in ms: one hue, log steps
  const HEAT_SCALES = [48, 12, 4]; // up to a day: a group that is hours behind all day would be one dark wall
  const WEEKDAYS = [...Array(7).keys()].map((n) =>
    new Date(Date.UTC(2024, 0, 1 + n)).toLocaleDateString(document.documentElement.lang || undefined, {
      weekday: "short",
      timeZone: "UTC",
    }),
  );
  const hour2 = (n) => String(n).padStart(2, "0");

  /* {rows, columns, values: [row][column] or null, every: label each n-th column from the first, title: (row, column)
     => text} */
  function heatMap(canvas, { rows, columns, values, every, first = 0, title, what, breaks, format = Tide.duration }) {
    let box = { x: 0, y: 0, w: 1, h: 1 },
      cw = 1,
      ch = 1;
    const at2 = (i) => [Math.floor(i / columns.length), i % columns.length];
    return new Plot(canvas, {
      stride: columns.length,
      length: () => rows.length * columns.length,
      hit(px, py) {
        const c = Math.floor((px - box.x) / cw),
          r = Math.floor((py - box.y) / ch);
        return c < 0 || r < 0 || c >= columns.length || r >= rows.length ? null : r * columns.length + c;
      },
      draw(g, w, h, at) {
        const names = Math.min(Math.max(...rows.map((name) => g.measureText(name).width)) + 14, w * 0.34);
        cw = Math.min((w - names - 4) / columns.length, CELL_MAX);
        box = { x: names, y: 4, w: cw * columns.length, h: h - 26 };
        ch = box.h / rows.length;
        const gap = cw > 5 ? 1 : 0;
        rows.forEach((name, r) => {
          if (ch >= 9 || r % Math.ceil(9 / ch) === 0)
            label(g, fit(g, name, names - 10), box.x - 8, box.y + ch * (r + 0.5), { align: "right" });
          columns.forEach((_, c) => {
            const v = values[r][c],
              px = box.x + c * cw,
              py = box.y + r * ch,
              cell = [px + gap, py + gap, Math.max(cw - 2 * gap, 0.5), Math.max(ch - 2 * gap, 0.5)];
            if (v === null) {
              hatch(g, ...cell);
              return;
            }
            g.fillStyle = colour("heat-" + breaks.filter((limit) => v >= limit).length);
            g.beginPath();
            g.roundRect(...cell, gap * 2);
            g.fill();
          });
        });
        const apart = Math.max(1, Math.ceil((g.measureText(columns[0]).width + 12) / (cw * every))) * every;
        columns.forEach((name, c) => {
          const middle = box.x + (c + 0.5) * cw;
          if (c >= first && (c - first) % apart === 0 && middle + g.measureText(name).width / 2 <= w)
            label(g, name, middle, box.y + box.h + 13, { align: "center" });
        });
        if (at !== null) {
          const [r, c] = at2(at);
          g.strokeStyle = colour("chart-cross");
          g.lineWidth = 2;
          g.setLineDash([]);
          g.strokeRect(box.x + c * cw, box.y + r * ch, Math.max(cw, 2), ch);
        }
      },
      read(i) {
        const [r, c] = at2(i),
          v = values[r][c];
        return {
          x: box.x + c * cw,
          y: Math.min(box.y + r * ch, box.h - 40),
          title: title(r, c),
          rows: [["", v === null ? gettext("not observed") : what, v === null ? "" : format(v)]],
        };
      },
    });
  }
  /* The breaks for these time lags: half the largest is in the last one. The key beside the title has both ends. */
  function heatBreaks(canvas, values) {
    const half = Math.max(0, ...values.flat()) / 2,
      scale = HEAT_SCALES.find((by) => HEAT_BREAKS.at(-1) * by <= half) ?? 1,
      breaks = HEAT_BREAKS.map((limit) => limit * scale),
      key = canvas.closest(".card").querySelector(".heatkey");
    key.firstElementChild.textContent = `< ${Tide.duration(breaks[0])}`;
    key.lastElementChild.textContent = `≥ ${Tide.duration(breaks.at(-1))}`;
    return breaks;
  }
  function fit(g, text, width) {
    if (g.measureText(text).width <= width) return text;
    let short = text;
    while (short.length > 1 && g.measureText("…" + short).width > width) short = short.slice(1);
    return "…" + short;
  }

  /* Observed weekday by hour of the reports' zone: of several weeks the largest. */
  function hourOfWeek(canvas, { hours_of_week: places, minute, p95_ms: values }) {
    const cells = WEEKDAYS.map(() => Array(24).fill(null));
    places.forEach((place, i) => {
      const day = Math.floor(place / 24),
        hour = place % 24;
      if (values[i] !== null) cells[day][hour] = Math.max(cells[day][hour] ?? 0, values[i]);
    });
    const seen = [...WEEKDAYS.keys()].filter((day) => cells[day].some((value) => value !== null));
    canvas.parentElement.style.setProperty("--rows", seen.length);
    heatMap(canvas, {
      rows: seen.map((day) => WEEKDAYS[day]),
      columns: [...Array(24).keys()].map(hour2),
      values: seen.map((day) => cells[day]),
      every: 3,
      breaks: heatBreaks(canvas, cells),
      what: gettext("p95 time lag"),
      title: (r, c) => `${WEEKDAYS[seen[r]]} ${hour2(c)}:${hour2(minute)}`,
    });
  }
  function queueHeat(canvas, { rows, times, values }) {
    canvas.parentElement.style.setProperty("--rows", rows.length);
    const everyHours = times.length > 72 ? 24 : times.length > 30 ? 6 : 3;
    const names = times.map((t) => (everyHours === 24 ? Tide.day(t) : Tide.clock(t).slice(0, 5)));
    // labels stand on round times of the reader's day
    const first = times.findIndex((t) => new Date(t).getHours() % everyHours === 0);
    heatMap(canvas, {
      rows,
      columns: names,
      values,
      every: everyHours,
      first: Math.max(0, first),
      breaks: heatBreaks(canvas, values),
      what: gettext("largest time lag"),
      title: (r, c) => `${rows[r]}, ${Tide.moment(times[c], Tide.now())}`,
    });
  }

  /* {slices: [{from_ms, to_ms, messages, histogram}], step_ms}: of each time the share of its messages in each band of
     waiting */
  const SHARE_BREAKS = [0.000001, 0.001, 0.01, 0.05, 0.2, 0.5],
    BAND_MS = 1000,
    BANDS_MIN = 6;
  function latencyHeat(canvas, { slices: all, step_ms: step }) {
    const slices = all.slice(all.findIndex((each) => each.messages));
    const band = (ms) => (ms === null ? Infinity : Math.max(0, Math.ceil(Math.log2(ms / BAND_MS) - 0.01)));
    const highest = Math.max(
      BANDS_MIN - 1,
      ...slices.flatMap((each) =>
        (each.histogram || []).filter((b) => b.messages && b.up_to_ms !== null).map((b) => band(b.up_to_ms)),
      ),
    );
    const bands = [...Array(highest + 1).keys()].reverse();
    const counts = slices.map((each) => {
      if (!each.histogram || !each.messages) return null;
      const sums = Array(highest + 1).fill(0);
      each.histogram.forEach((b) => {
        sums[Math.min(highest, band(b.up_to_ms))] += b.messages;
      });
      return sums;
    });
    canvas.parentElement.style.setProperty("--rows", bands.length);
    const names = slices.map((each) =>
      step >= 2 * HOUR ? Tide.day(each.from_ms) : Tide.clock(each.from_ms).slice(0, 5),
    );
    const every = step >= 2 * HOUR ? Math.round(DAY / step) : 3;
    const first = slices.findIndex((each) => {
      const at = new Date(each.from_ms);
      if (step >= 2 * HOUR) return at.getHours() < step / HOUR;
      return step === HOUR ? at.getHours() % 3 === 0 : (at.getMinutes() * MINUTE) % (3 * step) === 0;
    });
    const upTo = (b) => Tide.text(gettext("up to %(time)s"), { time: Tide.duration(BAND_MS * 2 ** b) });
    heatMap(canvas, {
      rows: bands.map(upTo),
      columns: names,
      values: bands.map((b) => counts.map((sums, i) => (sums ? sums[b] / slices[i].messages : null))),
      every,
      first: Math.max(0, first),
      breaks: SHARE_BREAKS,
      format: (v) => (v > 0 && v < 0.0005 ? "< 0.1 %" : Tide.percent(v)),
      what: gettext("of the messages"),
      title: (r, c) => `${upTo(bands[r])}, ${Tide.moment(slices[c].from_ms, Tide.now())}`,
    });
  }
  /* The slices together, as latencyCurve reads them. */
  function together(slices, slo) {
    const sums = new Map();
    for (const { histogram } of slices)
      for (const { up_to_ms: edge, messages } of histogram || []) sums.set(edge, (sums.get(edge) || 0) + messages);
    const edges = [...sums.keys()].sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
    const total = (name) => slices.reduce((sum, each) => sum + each[name], 0);
    return {
      slo_ms: slo,
      messages: total("messages"),
      within: total("within_slo"),
      censored: total("censored"),
      histogram: edges.map((edge) => ({ up_to_ms: edge, messages: sums.get(edge) })),
    };
  }

  // marks of a logarithmic axis of times
  const ROUND_MS = [1, 10, 100, 1000, 10000, 60000, 600000, HOUR, 6 * HOUR, DAY, 7 * DAY];
  /* {histogram: [{up_to_ms, messages}], slo_ms}: the share of messages that waited up to a time, on a logarithmic
     axis */
  function latencyCurve(canvas, { histogram, slo_ms: slo, messages }) {
    const known = histogram.filter((each) => each.up_to_ms !== null);
    let sum = 0;
    const points = known.map((each) => [Math.max(each.up_to_ms, 1), (sum += each.messages) / messages]);
    const first = points[0][0],
      last = Math.max(points.at(-1)[0], slo * 1.2, first * 10);
    let box = { x: 52, y: 28, w: 1, h: 1 };
    const x = (ms) => box.x + (Math.log(ms / first) / Math.log(last / first)) * box.w;
    const y = (share) => box.y + box.h - share * box.h;
    return new Plot(canvas, {
      length: () => points.length,
      hit(px) {
        if (px < box.x - 6 || px > box.x + box.w + 6) return null;
        let best = 0;
        points.forEach(([ms], i) => {
          if (Math.abs(x(ms) - px) < Math.abs(x(points[best][0]) - px)) best = i;
        });
        return best;
      },
      draw(g, w, h, at) {
        box = { x: 52, y: 28, w: w - 68, h: h - 52 };
        label(g, gettext("Messages that waited at most …"), 0, 12, { fill: "fg-2" });
        valueAxis(g, box, 1, (v) => `${Math.round(v * 100)} %`, "share");
        for (const ms of ROUND_MS.filter((each) => each >= first && each <= last)) {
          rule(g, x(ms), box.y, x(ms), box.y + box.h, "chart-grid");
          label(g, Tide.duration(ms), x(ms), box.y + box.h + 12, { align: "center" });
        }
        line(
          g,
          [...points.map(([ms, share]) => [x(ms), y(share)]), [x(last), y(points.at(-1)[1])]],
          colour("chart-1"),
          { fill: colour("chart-fill"), base: box.y + box.h },
        );
        rule(g, x(slo), box.y, x(slo), box.y + box.h, "warn-mark", [4, 3]);
        label(g, `SLO ${Tide.duration(slo)}`, x(slo) - 4, box.y + box.h - 8, {
          align: "right",
          fill: "fg-2",
          halo: true,
        });
        if (at !== null) rule(g, x(points[at][0]), box.y, x(points[at][0]), box.y + box.h, "chart-cross");
      },
      read: (i) => ({
        x: x(points[i][0]),
        y: 30,
        title: Tide.text(gettext("up to %(time)s"), { time: Tide.duration(points[i][0]) }),
        rows: [["c1", gettext("messages"), `${(points[i][1] * 100).toFixed(points[i][1] > 0.99 ? 3 : 1)} %`]],
      }),
    });
  }

  /* {at_ms, lag, drain_ms, lo_ms, hi_ms}: where the backlog goes at the rates of the hour; hi null: perhaps never */
  function drainFan(canvas, { at_ms: start, lag, drain_ms: drain, lo_ms: low, hi_ms: high }) {
    const end = start + (high ?? drain * 2.5) * 1.08;
    let box = { x: 58, y: 28, w: 1, h: 1 };
    const x = (t) => box.x + ((t - start) / (end - start)) * box.w;
    const y = (v) => box.y + box.h - (v / (lag * 1.08)) * box.h;
    const left = (at, span) => (span === null ? lag : Math.max(0, lag * (1 - (at - start) / span)));
    return new Plot(canvas, {
      length: () => 61,
      hit: (px) => (px < box.x || px > box.x + box.w ? null : Math.round(((px - box.x) / box.w) * 60)),
      draw(g, w, h, at) {
        box = { x: 58, y: 28, w: w - 70, h: h - 52 };
        label(g, gettext("Messages left, at the rates of the last hour"), 0, 12, { fill: "fg-2" });
        timeAxis(g, box, start, end, true);
        valueAxis(g, box, lag * 1.08, Tide.compact, "count");
        g.beginPath();
        g.moveTo(x(start), y(lag));
        g.lineTo(x(start + low), y(0));
        if (high === null) {
          g.lineTo(x(end), y(0));
          g.lineTo(x(end), y(lag));
        } else g.lineTo(x(start + high), y(0));
        g.closePath();
        g.fillStyle = colour("chart-fill");
        g.fill();
        line(
          g,
          [
            [x(start), y(lag)],
            [x(start + drain), y(0)],
          ],
          colour("chart-1"),
        );
        if (at !== null) {
          const t = start + ((end - start) * at) / 60;
          rule(g, x(t), box.y, x(t), box.y + box.h, "chart-cross");
        }
      },
      read(i) {
        const t = start + ((end - start) * i) / 60,
          best = Tide.compact(Math.round(left(t, low))),
          worst = Tide.compact(Math.round(left(t, high)));
        return {
          x: x(t),
          y: 30,
          title: Tide.moment(t, Tide.now()),
          rows: [
            ["c1", gettext("expected"), Tide.compact(Math.round(left(t, drain)))],
            ["", gettext("between"), Tide.text(gettext("%(best)s and %(worst)s"), { best, worst })],
          ],
        };
      },
    });
  }

  /* {from_ms, to_ms, rows: [{name, bars: [{start_ms, end_ms, kind, word, peak_ms}]}]}: one lane a group */
  function lanes(canvas, { from_ms: from, to_ms: to, rows }) {
    const TONES = { breach: "warn-mark", stall: "bad-mark", offline: "offline-mark", lost: "bad-mark" };
    const bars = rows.flatMap((row, r) => row.bars.map((bar) => ({ ...bar, r, name: row.name })));
    canvas.parentElement.style.setProperty("--rows", rows.length);
    let box = { x: 0, y: 0, w: 1, h: 1 },
      ch = 1;
    const x = (t) => box.x + ((Math.min(Math.max(t, from), to) - from) / (to - from)) * box.w;
    return new Plot(canvas, {
      length: () => bars.length,
      hit(px, py) {
        const found = bars.findLastIndex(
          (bar) =>
            px >= x(bar.start_ms) - 3 &&
            px <= Math.max(x(bar.end_ms), x(bar.start_ms) + 3) + 3 &&
            py >= box.y + bar.r * ch &&
            py < box.y + (bar.r + 1) * ch,
        );
        return found < 0 ? null : found;
      },
      draw(g, w, h, at) {
        const names = Math.min(Math.max(...rows.map((row) => g.measureText(row.name).width)) + 14, w * 0.34);
        box = { x: names, y: 4, w: w - names - 12, h: h - 28 };
        ch = box.h / rows.length;
        timeAxis(g, box, from, to, true);
        rows.forEach((row, r) => {
          const middle = box.y + ch * (r + 0.5);
          label(g, fit(g, row.name, names - 10), box.x - 8, middle, { align: "right" });
          rule(g, box.x, middle, box.x + box.w, middle, "chart-grid");
        });
        bars.forEach((bar, i) => {
          const left = x(bar.start_ms),
            width = Math.max(x(bar.end_ms) - left, 3),
            thick = Math.min(ch * 0.56, 14);
          g.fillStyle = colour(TONES[bar.kind] || "fg-3");
          g.beginPath();
          g.roundRect(left, box.y + ch * (bar.r + 0.5) - thick / 2, width, thick, 3);
          g.fill();
          if (i === at) {
            g.strokeStyle = colour("chart-cross");
            g.lineWidth = 2;
            g.stroke();
          }
        });
      },
      read(i) {
        const bar = bars[i];
        const rows_ = [["", bar.word, Tide.duration(bar.end_ms - bar.start_ms)]];
        if (bar.peak_ms) rows_.push(["", gettext("peak time lag"), Tide.duration(bar.peak_ms)]);
        return {
          x: x(bar.start_ms),
          y: Math.max(0, box.y + bar.r * ch - 30),
          title: `${bar.name}, ${Tide.moment(bar.start_ms, Tide.now())}`,
          rows: rows_,
        };
      },
    });
  }

  /* Time lag by the hour with the SLO as a line, and what is left of the error budget. */
  function hours(canvas, { times, p50_ms: p50, p95_ms: p95, max_ms: max, slo_ms: slo }) {
    const panel = {
      title: gettext("Time lag of the worst topic"),
      kind: "duration",
      format: Tide.duration,
      series: [
        { label: "p95", swatch: "c1", tone: "chart-1", fill: "chart-fill", values: p95 },
        { label: "p50", swatch: "c3", tone: "chart-3", values: p50 },
        { label: gettext("largest"), swatch: "cmin", tone: "chart-min", values: max },
      ],
    };
    if (slo) panel.band = { upTo: slo, tone: "ok-bg" };
    if (slo)
      panel.series.push({
        label: "SLO",
        swatch: "cslo",
        tone: "warn-mark",
        dash: [4, 3],
        values: times.map(() => slo),
      });
    Tide.timeSeries(canvas, { times, panels: [panel] });
  }
  function budget(canvas, { times, left_pct: left, even_pct: even }) {
    const percent = (v) => `${v < 0 ? "−" : ""}${Math.round(Math.abs(v))} %`;
    Tide.timeSeries(canvas, {
      times,
      panels: [
        {
          title: gettext("Error budget left"),
          kind: "share",
          format: percent,
          series: [
            {
              label: gettext("left"),
              swatch: "c1",
              tone: "chart-1",
              fill: "chart-fill",
              values: left.map((v) => (v === null ? null : Math.max(0, v))),
              told: left,
            },
            { label: gettext("even burn"), swatch: "cmin", tone: "chart-min", dash: [4, 3], values: even },
          ],
        },
      ],
    });
  }

  /* For how long messages are kept, and the age of the first unread one, of the queue with the least room. */
  function room(canvas, { times, kept_ms: kept, unread_ms: unread, room_ms: left, kept_lower_bound: bounds }) {
    const data = {
      times,
      panels: [
        {
          title: gettext("Age by store time"),
          kind: "duration",
          format: Tide.duration,
          series: [
            { label: gettext("oldest kept"), swatch: "c2", tone: "chart-2", values: kept, bounds },
            { label: gettext("first unread"), swatch: "c1", tone: "chart-1", fill: "chart-fill", values: unread },
          ],
          read: [[gettext("room"), left, bounds]],
        },
      ],
    };
    Tide.timeSeries(canvas, Tide.beginWithLine(data));
  }

  const KINDS = {
    hours,
    budget,
    flow: Tide.flow,
    "hour-of-week": hourOfWeek,
    queues: queueHeat,
    latency: latencyCurve,
    drain: drainFan,
    lanes,
    ...Tide.groupPlots,
  };
  for (const canvas of document.querySelectorAll("canvas[data-plot]")) {
    const source = document.getElementById(canvas.dataset.source);
    if (!source) continue;
    KINDS[canvas.dataset.plot](canvas, JSON.parse(source.textContent));
  }
  const ROOM_USED_MIN = 0.1; // of the time that messages are kept: below it the two lines lie at top and bottom
  /* What reads samples is asked for once the page stands. Each answers with the words of its note, null: nothing to
     draw. */
  const ASKED = {
    "latency-heat"(canvas, data) {
      if (!data.slices.some((each) => each.messages)) return [gettext("no message was consumed in this time"), false];
      latencyHeat(canvas, data);
      return [
        Tide.text(gettext("share of the messages of every %(step)s, by how long they waited; logarithmic colours"), {
          step: Tide.duration(data.step_ms),
        }),
        true,
      ];
    },
    latency(canvas, { slices }) {
      const data = together(slices, Number(canvas.dataset.slo));
      if (!data.messages) return [gettext("no message was consumed in this time"), false];
      latencyCurve(canvas, data);
      return [
        Tide.text(
          data.censored
            ? gettext("%(messages)s messages, %(share)s within the SLO; for %(censored)s, only a lower bound is known")
            : gettext("%(messages)s messages, %(share)s within the SLO"),
          {
            messages: Tide.count(data.messages),
            share: Tide.percent(data.within / data.messages),
            censored: Tide.count(data.censored || 0),
          },
        ),
        true,
      ];
    },
    room(canvas, data) {
      if (!data.queues)
        return [gettext("drawn when the brokers report how long they keep messages: not known in this time"), false];
      // Of a queue that has lost nothing yet, the room is at least what is drawn.
      const seen = data.room_ms.filter((v) => v !== null);
      const known = data.room_ms.filter((v, at) => v !== null && !data.kept_lower_bound[at]);
      const least = known.length ? Tide.duration(Math.min(...known)) : `≥ ${Tide.duration(Math.min(...seen))}`;
      const used = data.unread_ms.map((v, at) => (v === null ? 0 : v / Math.max(1, data.kept_ms[at])));
      if (Math.max(...used) < ROOM_USED_MIN)
        return [
          Tide.text(gettext("smallest margin %(room)s: no message came near its deletion"), { room: least }),
          false,
        ];
      room(canvas, data);
      return [
        Tide.text(gettext("by store time, a point every %(step)s; the least room was %(room)s"), {
          step: Tide.duration(data.interval_ms),
          room: least,
        }),
        true,
      ];
    },
  };
  const asked = new Map(); // two plots may read the same answer
  const ask = (url) => {
    if (!asked.has(url))
      asked.set(
        url,
        fetch(url).then(async (answer) => ({ status: answer.status, data: answer.ok ? await answer.json() : null })),
      );
    return asked.get(url);
  };
  for (const canvas of document.querySelectorAll("canvas[data-asked]")) {
    const card = canvas.closest("[data-asking]"),
      say = card.querySelector("[data-note]"),
      hide = () => card.classList.add("is-words"); // the line of words takes its place
    ask(canvas.dataset.url)
      .then(({ status, data }) => {
        if (!data) {
          say.textContent = Tide.text(gettext("not available: the server answered %(status)s"), { status });
          hide();
          return;
        }
        const [words, drawn] = ASKED[canvas.dataset.asked](canvas, data);
        say.textContent = words;
        if (!drawn) hide();
      })
      .catch(() => {
        say.textContent = gettext("not available: the server did not answer");
        hide();
      })
      .finally(() => canvas.parentElement.classList.remove("is-waiting"));
  }
})();
