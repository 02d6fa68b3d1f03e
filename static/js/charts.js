/* Charts on plain canvas: what every plot is made of, and time series. Colours come from CSS custom properties; every
   plot repaints on resize, theme change and new data. A null value is a gap: hatched, never bridged. Arrow keys move
   the reading. */
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
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5,
    144e5, 216e5, 432e5, 864e5, 1728e5, 4320e5,
  ];
  const FINEST_MS = { duration: 100, latency: 1 }; // as their words tell apart
  function ticks(max, kind, most) {
    let step = NICE_MS.find((ms) => ms >= FINEST_MS[kind] && max / ms <= most);
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
  const valueTicks = (max, kind, height) => ticks(max, kind, Math.max(2, height / 34));
  function valueAxis(g, box, max, format, kind) {
    for (const v of valueTicks(max, kind, box.h)) {
      const y = box.y + box.h - (v / max) * box.h;
      rule(g, box.x, y, box.x + box.w, y, v === 0 ? "line-2" : "chart-grid");
      label(g, format(v), box.x - 8, y, { align: "right" });
    }
  }

  /* The head of a reading: when, and how long ago. */
  function momentOf(t) {
    const now = Tide.now();
    return `${Tide.moment(t, now)} · ${Tide.text(gettext("%(age)s ago"), { age: Tide.age(now - t) })}`;
  }

  /* ---- time series: {times, panels: [{title, kind, format, unit, weight, highWater, max, band: {from, upTo, tone},
     read: [[label, values, bounds]] told and not drawn, limits: [values], note: (i) => words after each value,
     forecast: {tone, perMs}, series: [{label, swatch, tone, values, fill, dash, bounds, told}]}], ahead: ms after the
     last reading for the forecast, events: [{t, mark, label, tone}], begins: when the line does, in words,
     pick: (t) => …, picked: t}; panels share one time axis, units never share a value axis ---- */
  /* A chart begins where its data begin; after a lone reading and a gap, with the line. */
  const LONE_WITHIN = 2 * MINUTE;
  function beginWithLine(data) {
    const { times, panels } = data,
      lead = panels[0].series[0].values;
    const first = lead.findIndex((v) => v !== null),
      line = lead.findIndex((v, i) => v !== null && (lead[i + 1] ?? null) !== null);
    const at = line > 0 && times[line] - times[first] <= LONE_WITHIN ? line : first;
    if (at < 1) return data;
    const columns = new Set(
      panels.flatMap((panel) => [...panel.series.flatMap((s) => [s.values, s.bounds]), ...(panel.read || []).flat()]),
    );
    for (const column of [times, ...columns]) if (Array.isArray(column)) column.splice(0, at);
    return data;
  }
  /* The line in parts [from, to, isBound], each from where the last ends: what leads to or from a bound is one too. */
  const BOUND = [2, 3];
  function stretches({ values, bounds }) {
    const parts = [];
    for (let i = 1; i < values.length; i++) {
      const isBound = Boolean(bounds?.[i - 1] || bounds?.[i]);
      if (parts.at(-1)?.[2] === isBound) parts.at(-1)[1] = i + 1;
      else parts.push([i - 1, i + 1, isBound]);
    }
    return parts;
  }
  function timeSeries(canvas, data) {
    const legend = canvas.closest(".card")?.querySelector(".legend"),
      bound = document.createElement("span");
    bound.append(Object.assign(document.createElement("i"), { className: "cbound" }), gettext("at least"));
    /* The legend has it while it is drawn. */
    function nameBounds() {
      const isDrawn = (s) => s.values.some((v, i) => v !== null && s.bounds?.[i]);
      if (!data.panels.some((panel) => panel.series.some(isDrawn))) bound.remove();
      else if (!bound.isConnected) legend?.querySelector("span:has(i.cgap), span:last-of-type")?.before(bound);
    }
    let box = { x: 0, w: 1 };
    const TITLE = 30,
      AXIS = 24,
      MARKS_READ = 5; // all of them stand below the chart
    const first = () => data.times[0],
      last = () => data.times.at(-1),
      end = () => last() + (data.ahead || 0),
      events = () => data.events || [];
    const x = (t) => box.x + ((t - first()) / Math.max(1, end() - first())) * box.w;

    const topOf = (panel) =>
      panel.max || maxOf(panel.series.map((s) => s.values)) * 1.12 || (panel.kind === "duration" ? 1000 : 1);

    function drawPanel(g, panel, area, w, isLast) {
      const { times } = data,
        top = topOf(panel);
      const yOf = (v) => area.y + area.h - (v / top) * area.h;
      label(g, panel.title, 0, area.y - TITLE + 17, { fill: "fg-2" });
      timeAxis(g, area, first(), end(), isLast);
      valueAxis(g, area, top, panel.format, panel.kind);
      if (panel.band) {
        g.fillStyle = colour(panel.band.tone);
        const edge = yOf(Math.min(panel.band.upTo, top));
        g.fillRect(area.x, edge, area.w, yOf(Math.min(panel.band.from || 0, top)) - edge);
      }
      const lead = panel.series[0].values;
      hatchGaps(g, lead, times, x, area);
      for (const s of panel.series) {
        const points = s.values.map((v, i) => [x(times[i]), v === null ? null : yOf(v)]),
          style = { fill: s.fill && colour(s.fill), base: area.y + area.h, dash: s.dash };
        for (const [from, to, isBound] of stretches(s))
          line(g, points.slice(from, to), colour(s.tone), isBound ? { dash: BOUND } : style);
      }
      for (const limit of panel.limits || [])
        rule(g, area.x, yOf(limit), area.x + area.w, yOf(limit), "bad-mark", [2, 3]);
      if (panel.forecast) drawForecast(g, panel, area, top);
      const peak = maxOf([lead]);
      if (panel.highWater && peak > 0) {
        const at = x(times[lead.indexOf(peak)]),
          y = yOf(peak),
          left = at > box.x + box.w / 2,
          from = Math.max(box.x, at - 14),
          to = Math.min(at + 14, box.x + box.w);
        rule(g, from, y, to, y, "fg-3");
        // above the peak no line passes through the words
        label(g, `${panel.highWater} ${panel.format(peak)}`, left ? to : from, y - 8, {
          align: left ? "right" : "left",
          fill: "fg-2",
          halo: true,
        });
      }
    }
    /* From the last reading on as it went lately, up to the top. */
    function drawForecast(g, panel, area, top) {
      const { perMs, tone } = panel.forecast,
        values = panel.series[0].values,
        from = values.findLastIndex((v) => v !== null);
      if (from < 0 || !data.ahead) return;
      const span = Math.min(end() - data.times[from], perMs > 0 ? (top - values[from]) / perMs : Infinity);
      const points = [0, span].map((after) => [
        x(data.times[from] + after),
        area.y + area.h - ((values[from] + after * perMs) / top) * area.h,
      ]);
      line(g, points, colour(tone), { dash: [4, 3] });
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
      const room = h - strip - AXIS - TITLE * data.panels.length,
        heightOf = (panel) => (room * (panel.weight || 1)) / weights;
      // a duration of two Chinese units is wider than any number
      for (const panel of data.panels)
        for (const v of valueTicks(topOf(panel), panel.kind, heightOf(panel)))
          box.x = Math.max(box.x, Math.ceil(g.measureText(panel.format(v)).width) + 8);
      box.w = w - box.x - 12;
      nameBounds();
      data.panels.forEach((panel, n) => {
        const area = { x: box.x, y: y + TITLE, w: box.w, h: heightOf(panel) };
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
      const t = first() + ((px - box.x) / box.w) * (end() - first());
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
        values[i] === null
          ? gettext("no data")
          : [bounds?.[i] ? "≥" : "", p.format(values[i], true), p.unit, p.note?.(i)].filter(Boolean).join(" "),
      ];
      const rows = data.panels.flatMap((p) => [
        ...p.series.map((s) => told(p, s.label, s.told || s.values, s.bounds, s.swatch)),
        ...(p.read || []).map((each) => told(p, ...each)),
      ]);
      const marks = events()
        .filter((e) => Math.abs(e.t - t) <= near)
        .slice(-MARKS_READ)
        .map((e) => ["sr", `${e.mark} · ${e.label}`, ""]);
      return { x: x(t), y: 30, title: momentOf(t), rows: [...rows, ...marks] };
    }
    const pick =
      data.pick &&
      ((i) => {
        data.picked = data.times[i];
        data.pick(data.picked);
      });
    return new Plot(canvas, { draw, hit, read, pick, length: () => data.times.length });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["data-theme"],
  });
  /* A rate on an axis, or in full: whole numbers would repeat below 10. */
  const rateLabel = (v, full) => (full || v < 10 ? Tide.rate(v) : Tide.compact(v));

  Object.assign(Tide, {
    rateLabel,
    beginWithLine,
    timeSeries,
    momentOf,
    drawing: { Plot, line, hatch, hatchGaps, label, rule, colour, ticks, maxOf, timeAxis, valueAxis },
  });
})();
