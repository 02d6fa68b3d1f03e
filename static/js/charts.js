/* Charts on plain canvas: sparkline, time series, cumulative flow. Colours come from CSS custom properties; every plot
   repaints on resize, theme change and new data. A null value is a gap: hatched, never bridged. Arrow keys move the
   reading. */
(function () {
  "use strict";

  const plots = new Map(); // by canvas
  let colours = {};
  // A canvas knows no light-dark(): an element computes which of the two holds.
  const probe = document.body.appendChild(Object.assign(document.createElement("i"), { hidden: true }));
  const colour = (name) => {
    if (!colours[name]) {
      probe.style.color = `var(--${name})`;
      colours[name] = getComputedStyle(probe).color;
    }
    return colours[name];
  };
  const repaint = () => {
    colours = {};
    plots.forEach((plot) => plot.paint());
  };

  const DAY = 86400000,
    MINUTE = 60000;
  const TIME_STEPS = [1 / 4, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 4320, 10080].map(
    (m) => m * MINUTE,
  );
  const NICE_MS = [
    100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 144e5, 216e5, 432e5,
    864e5, 1728e5, 4320e5,
  ];
  function ticks(max, kind, most) {
    let step = kind === "duration" ? NICE_MS.find((ms) => max / ms <= most) : undefined;
    if (!step) {
      const power = 10 ** Math.floor(Math.log10(max / most));
      step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((s) => max / s <= most);
      if (kind === "count") step = step === 2.5 ? 5 : Math.max(1, step); // no half messages
    }
    const out = [];
    for (let v = 0; v <= max * 1.0001; v += step) out.push(v);
    return out;
  }
  const maxOf = (arrays) => arrays.reduce((m, a) => a.reduce((n, v) => (v !== null && v > n ? v : n), m), 0);

  /* All sizes at once: a plot that measured itself would lay the page out again for each canvas. */
  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries)
      plots.get(target)?.paint([Math.round(contentRect.width), Math.round(contentRect.height)]);
  });

  /* ---- one canvas: size, device pixels, hover, keyboard ---- */
  class Plot {
    constructor(canvas, view) {
      Object.assign(this, { canvas, view, at: null, size: [0, 0] });
      plots.set(canvas, this);
      sizes.observe(canvas);
      if (view.read) this.listen();
    }
    listen() {
      const { canvas } = this;
      canvas.tabIndex = 0;
      this.tip = canvas.parentElement.appendChild(document.createElement("div"));
      this.tip.className = "chart-tip";
      this.tip.setAttribute("aria-live", "polite");
      this.tip.hidden = true;
      canvas.addEventListener("pointermove", (e) => this.move(this.view.hit(e.offsetX, e.offsetY)));
      canvas.addEventListener("pointerleave", () => this.move(null));
      if (this.view.pick)
        canvas.addEventListener("click", (e) => {
          const index = this.view.hit(e.offsetX, e.offsetY);
          if (index !== null) {
            this.view.pick(index);
            this.paint();
          }
        });
      canvas.addEventListener("keydown", (e) => {
        if (e.key === "Enter" && this.at !== null && this.view.pick) {
          e.preventDefault();
          this.view.pick(this.at);
          this.paint();
          return;
        }
        const row = this.view.stride || 0; // cells of a row, where there are rows
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row, PageUp: -12, PageDown: 12 }[e.key];
        if (e.key === "Escape") {
          this.move(null);
          return;
        }
        if (!step) return;
        e.preventDefault();
        const last = this.view.length() - 1;
        this.move(Math.max(0, Math.min(last, (this.at ?? last) + step)));
      });
    }
    move(index) {
      if (index !== this.at) {
        this.at = index;
        this.paint();
      }
    }
    paint(size = this.size) {
      const { canvas, view } = this,
        ratio = window.devicePixelRatio || 1,
        [w, h] = (this.size = size);
      if (!canvas.isConnected) {
        plots.delete(canvas);
        sizes.unobserve(canvas);
        return;
      }
      if (!w || !h) return;
      if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
        canvas.width = Math.round(w * ratio);
        canvas.height = Math.round(h * ratio);
      }
      const g = canvas.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.clearRect(0, 0, w, h);
      g.font = "11px " + (getComputedStyle(document.body).fontFamily || "system-ui");
      g.lineJoin = "round";
      view.draw(g, w, h, this.at);
      if (this.tip) this.showTip(w);
    }
    showTip(w) {
      const reading = this.at === null ? null : this.view.read(this.at);
      this.tip.hidden = !reading;
      if (!reading) return;
      const title = Object.assign(document.createElement("b"), { textContent: reading.title });
      const rows = reading.rows.map(([swatch, label, value]) => {
        const row = document.createElement("div"),
          name = document.createElement("span"),
          mark = document.createElement("i");
        row.className = "r";
        mark.className = swatch;
        name.append(mark, label);
        row.append(name, Object.assign(document.createElement("span"), { textContent: value }));
        return row;
      });
      this.tip.replaceChildren(title, ...rows);
      const width = this.tip.offsetWidth,
        left = reading.x + 14 + width > w ? reading.x - 14 - width : reading.x + 14;
      this.tip.style.transform = `translate(${Math.max(0, left)}px, ${reading.y}px)`;
    }
  }

  /* ---- drawing ---- */
  function line(g, points, stroke, { width = 1.5, dash = [], fill, base } = {}) {
    let run = [];
    const trace = () => {
      g.beginPath();
      run.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
    };
    const flush = () => {
      if (run.length === 1) {
        g.beginPath();
        g.arc(run[0][0], run[0][1], 2, 0, 7);
        g.fillStyle = stroke;
        g.fill();
      } // a lone sample between gaps
      if (run.length > 1) {
        if (fill) {
          trace();
          g.lineTo(run.at(-1)[0], base);
          g.lineTo(run[0][0], base);
          g.fillStyle = fill;
          g.fill();
        }
        trace();
        g.strokeStyle = stroke;
        g.lineWidth = width;
        g.setLineDash(dash);
        g.stroke();
        g.setLineDash([]);
      }
      run = [];
    };
    for (const point of points) {
      if (point[1] === null) flush();
      else run.push(point);
    }
    flush();
  }
  function hatch(g, x, y, w, h) {
    g.save();
    g.beginPath();
    g.rect(x, y, w, h);
    g.clip();
    g.strokeStyle = colour("chart-gap");
    g.lineWidth = 2;
    g.beginPath();
    for (let i = x - h; i < x + w; i += 6) {
      g.moveTo(i, y + h);
      g.lineTo(i + h, y);
    }
    g.stroke();
    g.restore();
  }
  function label(g, text, x, y, { align = "left", fill = "chart-axis", halo = false } = {}) {
    g.textAlign = align;
    g.textBaseline = "middle";
    if (halo) {
      g.strokeStyle = colour("bg-surface");
      g.lineWidth = 4;
      g.strokeText(text, x, y);
    }
    g.fillStyle = colour(fill);
    g.fillText(text, x, y);
  }
  function rule(g, x1, y1, x2, y2, stroke, dash = []) {
    const snap = (v) => Math.round(v) + 0.5;
    g.beginPath();
    g.moveTo(snap(x1), snap(y1));
    g.lineTo(snap(x2), snap(y2));
    g.strokeStyle = colour(stroke);
    g.lineWidth = 1;
    g.setLineDash(dash);
    g.stroke();
    g.setLineDash([]);
  }
  function timeAxis(g, box, t0, t1, named) {
    const zone = -new Date(t1).getTimezoneOffset() * MINUTE;
    const step = TIME_STEPS.find((s) => (t1 - t0) / s <= box.w / 84) || 14 * DAY;
    for (let t = Math.ceil((t0 + zone) / step) * step - zone; t <= t1; t += step) {
      const x = box.x + ((t - t0) / (t1 - t0)) * box.w;
      rule(g, x, box.y, x, box.y + box.h, "chart-grid");
      // over several days midnight says which one begins
      const isDay = step >= DAY || (t1 - t0 > DAY && (t + zone) % DAY === 0);
      if (named && x < box.x + box.w - 14)
        label(g, isDay ? Tide.day(t) : Tide.clock(t).slice(0, step < MINUTE ? 8 : 5), x, box.y + box.h + 12, {
          align: "center",
        });
    }
  }
  /* What was not observed, each gap once: from the last known point to the next. */
  function hatchGaps(g, values, times, x, area) {
    for (let i = 0; i < values.length; i++) {
      if (values[i] !== null) continue;
      let j = i;
      while (j < values.length && values[j] === null) j++;
      const from = x(times[Math.max(0, i - 1)]),
        to = x(times[Math.min(times.length - 1, j)]);
      hatch(g, from, area.y, to - from, area.h);
      i = j;
    }
  }
  function valueAxis(g, box, max, format, kind) {
    for (const v of ticks(max, kind, Math.max(2, box.h / 34))) {
      const y = box.y + box.h - (v / max) * box.h;
      rule(g, box.x, y, box.x + box.w, y, v === 0 ? "line-2" : "chart-grid");
      label(g, format(v), box.x - 8, y, { align: "right" });
    }
  }

  /* ---- sparkline: one value per minute ---- */
  function sparkline(canvas) {
    new Plot(canvas, {
      draw(g, w, h) {
        const values = [...canvas.dataset.trend].map((each) => (each === "-" ? null : Tide.LEVELS.indexOf(each))),
          tone = canvas.dataset.tone || "chart-1";
        if (!values.length) return;
        const slots = Math.max(values.length, Number(canvas.dataset.slots || 60)),
          first = slots - values.length;
        const top = Math.max(maxOf([values]) * 1.12, 1e-9),
          base = h - 2;
        const points = values.map((v, i) => [
          1 + ((first + i) / (slots - 1)) * (w - 5),
          v === null ? null : base - (v / top) * (h - 5),
        ]);
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

  /* ---- time series: {times, panels: [{title, kind, format, weight, highWater, band: {upTo, tone}, read: [[label,
     values, bounds]] told and not drawn, series: [{label, swatch, tone, values, fill, dash, bounds, told}]}], events:
     [{t, mark, label, tone}], begins: when the line does, in words, pick: (t) => …, picked: t}; panels share one time
     axis, units never share a value axis ---- */
  /* A chart begins where its data begin; after a lone reading and a gap, with the line. */
  const LONE_WITHIN = 2 * MINUTE;
  function beginWithLine(data) {
    const { times, panels } = data,
      lead = panels[0].series[0].values;
    const first = lead.findIndex((v) => v !== null),
      line = lead.findIndex((v, i) => v !== null && (lead[i + 1] ?? null) !== null);
    const at = line > 0 && times[line] - times[first] <= LONE_WITHIN ? line : first;
    if (at < 1) return data;
    const columns = new Set(panels.flatMap((panel) => panel.series.flatMap((s) => [s.values, s.bounds])));
    for (const column of [times, ...columns]) column?.splice(0, at);
    return data;
  }
  function timeSeries(canvas, data) {
    let box = { x: 0, w: 1 };
    const TITLE = 30,
      AXIS = 24,
      MARKS_READ = 5; // all of them stand below the chart
    const first = () => data.times[0],
      last = () => data.times.at(-1),
      events = () => data.events || [];
    const x = (t) => box.x + ((t - first()) / Math.max(1, last() - first())) * box.w;

    function drawPanel(g, panel, area, w, isLast) {
      const { times } = data,
        top = maxOf(panel.series.map((s) => s.values)) * 1.12 || (panel.kind === "duration" ? 1000 : 1);
      const yOf = (v) => area.y + area.h - (v / top) * area.h;
      label(g, panel.title, 0, area.y - TITLE + 17, { fill: "fg-2" });
      timeAxis(g, area, first(), last(), isLast);
      valueAxis(g, area, top, panel.format, panel.kind);
      if (panel.band) {
        g.fillStyle = colour(panel.band.tone);
        const edge = yOf(Math.min(panel.band.upTo, top));
        g.fillRect(area.x, edge, area.w, area.y + area.h - edge);
      }
      const lead = panel.series[0].values;
      hatchGaps(g, lead, times, x, area);
      for (const s of panel.series)
        line(
          g,
          s.values.map((v, i) => [x(times[i]), v === null ? null : yOf(v)]),
          colour(s.tone),
          { fill: s.fill && colour(s.fill), base: area.y + area.h, dash: s.dash },
        );
      const peak = maxOf([lead]);
      if (panel.highWater && peak > 0) {
        const at = x(times[lead.indexOf(peak)]),
          y = yOf(peak),
          left = at > box.x + box.w / 2;
        rule(g, Math.max(box.x, at - 14), y, Math.min(at + 14, box.x + box.w), y, "fg-3");
        label(g, `${panel.highWater} ${panel.format(peak)}`, left ? at - 18 : at + 18, y, {
          align: left ? "right" : "left",
          fill: "fg-2",
          halo: true,
        });
      }
    }
    function draw(g, w, h, at) {
      const weights = data.panels.reduce((sum, p) => sum + (p.weight || 1), 0),
        strip = events().length ? 20 : 0;
      box = { x: 58, w: w - 70 };
      if (data.times.length < 2) {
        label(g, data.begins || gettext("The line begins with the second reading."), w / 2, h / 2, {
          align: "center",
          fill: "fg-3",
        });
        return;
      }
      let y = strip;
      const room = h - strip - AXIS - TITLE * data.panels.length;
      data.panels.forEach((panel, n) => {
        const area = { x: box.x, y: y + TITLE, w: box.w, h: (room * (panel.weight || 1)) / weights };
        drawPanel(g, panel, area, w, n === data.panels.length - 1);
        y += TITLE + area.h;
      });
      const flags = []; // marks nearer than a flag's width share one: its letter, or how many there are
      for (const e of events()) {
        if (e.t < first() || e.t > last()) continue;
        const ex = x(e.t),
          flag = flags.at(-1);
        rule(g, ex, strip, ex, h - AXIS, e.tone || "fg-3", [2, 3]);
        if (flag && ex < flag.x + 18) {
          flag.count += 1;
          flag.isMixed ||= flag.mark !== e.mark;
        } else flags.push({ x: ex, mark: e.mark, tone: e.tone || "fg-3", count: 1, isMixed: false });
      }
      for (const flag of flags) {
        g.fillStyle = colour(flag.isMixed ? "fg-2" : flag.tone);
        g.beginPath();
        g.roundRect(flag.x - 8, 2, 16, 15, 3);
        g.fill();
        label(g, flag.isMixed ? String(flag.count) : flag.mark, flag.x, 10, { align: "center", fill: "bg-surface" });
      }
      if (data.picked >= first() && data.picked <= last()) {
        const px = x(data.picked);
        g.fillStyle = colour("accent");
        g.fillRect(px - 1, strip, 2, h - AXIS - strip);
        g.beginPath();
        g.arc(px, h - AXIS, 4, 0, 7);
        g.fill();
        label(g, Tide.clock(data.picked).slice(0, 5), px > w - 60 ? px - 6 : px + 6, strip + 8, {
          align: px > w - 60 ? "right" : "left",
          fill: "accent",
          halo: true,
        });
      }
      if (at !== null && at < data.times.length)
        rule(g, x(data.times[at]), strip, x(data.times[at]), h - AXIS, "chart-cross");
    }
    function hit(px) {
      if (px < box.x - 6 || px > box.x + box.w + 6 || data.times.length < 2) return null;
      const t = first() + ((px - box.x) / box.w) * (last() - first());
      let low = 0,
        high = data.times.length - 1;
      while (high - low > 1) {
        const mid = (low + high) >> 1;
        if (data.times[mid] <= t) low = mid;
        else high = mid;
      }
      return t - data.times[low] < data.times[high] - t ? low : high;
    }
    function read(i) {
      const t = data.times[i],
        near = (last() - first()) / 150;
      const told = (p, label, values, bounds, swatch = "") => [
        swatch,
        label,
        values[i] === null ? gettext("no data") : (bounds?.[i] ? "≥ " : "") + p.format(values[i], true),
      ];
      const rows = data.panels.flatMap((p) => [
        ...p.series.map((s) => told(p, s.label, s.told || s.values, s.bounds, s.swatch)),
        ...(p.read || []).map((each) => told(p, ...each)),
      ]);
      const marks = events()
        .filter((e) => Math.abs(e.t - t) <= near)
        .slice(-MARKS_READ)
        .map((e) => ["sr", `${e.mark} · ${e.label}`, ""]);
      return { x: x(t), y: 30, title: Tide.moment(t, Tide.now()), rows: [...rows, ...marks] };
    }
    const pick =
      data.pick &&
      ((i) => {
        data.picked = data.times[i];
        data.pick(data.picked);
      });
    return new Plot(canvas, { draw, hit, read, pick, length: () => data.times.length });
  }

  /* ---- cumulative flow: {times, produced, pulled, committed, stored_from}, messages since the first time. Between the
     lines the vertical stroke is lag, the horizontal one latency ---- */
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
      for (const [values, tone, dash] of [
        [data.stored_from, "chart-min", [4, 3]],
        [data.pulled, "chart-2"],
        [data.committed, "chart-3"],
        [data.produced, "chart-1"],
      ]) {
        g.save();
        g.beginPath();
        g.rect(box.x, box.y, box.w, box.h + 1);
        g.clip();
        line(g, points(values), colour(tone), { dash });
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
      const number = (v) => (v === null ? gettext("no data") : (v > 0 ? "+" : "") + Tide.count(v));
      const { produced, pulled, committed } = data,
        lag = produced[i] === null || committed[i] === null ? null : produced[i] - committed[i];
      const since = lag === null ? undefined : entered(i);
      const rows = [["c1", gettext("produced"), number(produced[i])]];
      if (pulled[i] !== null) rows.push(["c2", gettext("pulled"), number(pulled[i])]);
      rows.push(["c3", gettext("committed"), number(committed[i])]);
      if (lag !== null)
        rows.push(
          ["", gettext("lag ↕"), Tide.count(lag)],
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
        rows.push(["", gettext("in flight"), Tide.count(Math.max(0, pulled[i] - committed[i]))]);
      return { x: x(data.times[i]), y: 30, title: Tide.moment(data.times[i], Tide.now()), rows };
    }
    return new Plot(canvas, { draw, hit, read, length: () => data.times.length });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["data-theme"],
  });
  Object.assign(Tide, {
    sparklines,
    beginWithLine,
    timeSeries,
    flow,
    drawing: { Plot, line, hatch, label, rule, colour, timeAxis, valueAxis },
  });
  sparklines();
})();
