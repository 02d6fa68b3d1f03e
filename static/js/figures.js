/* How a figure looks in the browser: the twin of console/text/figures.py and console/templatetags/figures.py, for cells
   that change live. tests/console/figures.json holds literal cases that both must give. Everything from a row is
   escaped. */
(function () {
  "use strict";

  /* The words of the page's language come before this script (Django's catalogue); English pages have none. */
  window.gettext ??= (text) => text;
  window.pgettext ??= (context, text) => text;
  window.ngettext ??= (one, many, number) => (number === 1 ? one : many);
  window.interpolate ??= (text, values) => text.replace(/%\((\w+)\)s/g, (all, name) => values[name]);
  const say = (text, values) => interpolate(text, values, true);

  const SECOND = 1000,
    MINUTE = 60000,
    HOUR = 3600000,
    DAY = 86400000;
  const WHOLE_DAYS_FROM = 10 * DAY;
  const DAYS_FROM = 2 * DAY; // up to here "31 h 04 m" says more than "1 d 07 h"
  const MINUS = "−";
  const STATUSES = {
    OK: ["ok", "ok", gettext("OK")],
    CATCHING_UP: ["catch", "catch", gettext("Catching up")],
    FALLING_BEHIND: ["warn", "behind", gettext("Falling behind")],
    STALLED: ["bad", "stalled", gettext("Stalled")],
    STOPPED: ["bad", "stopped", gettext("Stopped")],
    REWOUND: ["catch", "rewound", gettext("Rewound")],
    SKIPPED: ["warn", "skipped", gettext("Skipped")],
    HANDLED: ["offline", "skipped", gettext("Handled")],
    LOST: ["bad", "lost", gettext("Lost")],
    OFFLINE: ["offline", "offline", gettext("Offline")],
    NEVER_COMMITTED: ["offline", "never", gettext("Never committed")],
    INVALID: ["unknown", "invalid", gettext("Invalid")],
    UNKNOWN: ["unknown", "unknown", gettext("Unknown")],
    PARTIAL: ["unknown", "unknown", gettext("Partial")],
    DRAFT: ["offline", "never", gettext("Plan")],
    UNAPPROVED: ["warn", "stalled", gettext("Waiting for approval")],
    APPROVED: ["ok", "ok", gettext("Approved")],
    APPLIED: ["ok", "ok", gettext("Applied")],
    EXPIRED: ["offline", "offline", gettext("Expired")],
    DISCARDED: ["offline", "offline", gettext("Discarded")],
    QUEUED: ["offline", "never", gettext("Queued")],
    WAITING: ["warn", "stalled", gettext("Waiting for a worker")],
    RUNNING: ["catch", "catch", gettext("Running")],
    PAUSED: ["warn", "stalled", gettext("Paused")],
    VERIFYING: ["catch", "catch", gettext("Verifying")],
    SUCCEEDED: ["ok", "ok", gettext("Done")],
    FAILED: ["bad", "lost", gettext("Failed")],
    CANCELLED: ["offline", "offline", gettext("Cancelled")],
    PENDING: ["offline", "never", gettext("To go")],
    SENT: ["ok", "ok", gettext("Sent")],
  };
  const TIME_TONES = { LOST: "t-bad", STALLED: "t-bad", STOPPED: "t-bad", FALLING_BEHIND: "t-warn" };

  /* ---- text ---- */
  const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  const rounded = (value) => Math.floor(value + 0.5);

  function count(value) {
    const number = rounded(value);
    return (number < 0 ? MINUS : "") + grouped(Math.abs(number));
  }
  function tenth(value) {
    const tenths = rounded(Math.abs(value) * 10);
    const text = grouped(Math.floor(tenths / 10)) + (tenths % 10 ? "." + (tenths % 10) : "");
    return value < 0 && tenths ? MINUS + text : text;
  }
  const short = (value) => (rounded(value * 10) < 100 ? tenth(value) : count(value));

  function compact(value) {
    const size = Math.abs(value);
    for (const [unit, scale] of [
      ["B", 1e9],
      ["M", 1e6],
      ["k", 1e3],
    ]) {
      if (size >= scale * (unit === "k" ? 10 : 1)) return `${value < 0 ? MINUS : ""}${short(size / scale)} ${unit}`;
    }
    return count(value);
  }
  function rate(value) {
    if (value > 0 && value < 0.05) return "< 0.1";
    return value < 99.95 ? tenth(value) : count(value);
  }
  const UNITS = {
    ms: pgettext("unit of a duration", "%(number)s ms"),
    s: pgettext("unit of a duration", "%(number)s s"),
    m: pgettext("unit of a duration", "%(number)s m"),
    h: pgettext("unit of a duration", "%(number)s h"),
    d: pgettext("unit of a duration", "%(number)s d"),
  };
  const unit = (number, name) => say(UNITS[name], { number });
  function pair(value, big, bigUnit, small, smallUnit, keepsWidth) {
    const rest = Math.floor((value % big) / small);
    return unit(Math.floor(value / big), bigUnit) + (rest || keepsWidth ? " " + unit(pad(rest), smallUnit) : "");
  }
  function duration(ms, keepsWidth = false) {
    if (ms < 0) return MINUS + duration(-ms);
    if (rounded(ms / 100) < 100) return unit(tenth(ms / SECOND), "s");
    const seconds = rounded(ms / SECOND) * SECOND;
    if (seconds < MINUTE) return unit(seconds / SECOND, "s");
    if (seconds < HOUR) return pair(seconds, MINUTE, "m", SECOND, "s", keepsWidth);
    if (seconds < DAYS_FROM) return pair(seconds, HOUR, "h", MINUTE, "m", keepsWidth);
    if (seconds < WHOLE_DAYS_FROM) return pair(seconds, DAY, "d", HOUR, "h", keepsWidth);
    return unit(Math.floor(seconds / DAY), "d");
  }
  // an age that ticks stays as wide: "2 m 00 s"
  const age = (ms) => duration(Math.max(0, Math.floor(ms / SECOND)) * SECOND, true);
  const latency = (ms) => (ms < SECOND ? unit(rounded(ms), "ms") : duration(ms));
  function size(bytes) {
    for (const [unit, scale] of [
      ["TB", 1e12],
      ["GB", 1e9],
      ["MB", 1e6],
      ["kB", 1e3],
    ]) {
      if (bytes >= scale) return `${short(bytes / scale)} ${unit}`;
    }
    return `${rounded(bytes)} B`;
  }
  const percent = (ratio) => `${tenth(ratio * 100)} %`;

  /* ---- moments, in the zone of this browser ---- */
  const MONTHS = [
    gettext("Jan"),
    gettext("Feb"),
    gettext("Mar"),
    gettext("Apr"),
    pgettext("month", "May"),
    gettext("Jun"),
    gettext("Jul"),
    gettext("Aug"),
    gettext("Sep"),
    gettext("Oct"),
    gettext("Nov"),
    gettext("Dec"),
  ];
  function clock(ms, withMs = false) {
    const at = new Date(ms);
    const fraction = withMs ? "." + pad(at.getMilliseconds(), 3) : "";
    return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}${fraction}`;
  }
  function day(ms) {
    const at = new Date(ms);
    return say(gettext("%(day)s %(month)s"), { day: at.getDate(), month: MONTHS[at.getMonth()] });
  }
  function dayOfYear(ms) {
    const at = new Date(ms);
    return say(gettext("%(day)s %(month)s %(year)s"), {
      day: at.getDate(),
      month: MONTHS[at.getMonth()],
      year: at.getFullYear(),
    });
  }
  function moment(ms, now, withMs = false) {
    const at = new Date(ms),
      today = new Date(now);
    if (at.toDateString() === today.toDateString()) return clock(ms, withMs);
    return `${at.getFullYear() === today.getFullYear() ? day(ms) : dayOfYear(ms)} ${clock(ms, withMs)}`;
  }
  function zoneOffset(ms) {
    const minutes = -new Date(ms).getTimezoneOffset();
    if (!minutes) return "UTC";
    const size = Math.abs(minutes);
    return `UTC${minutes > 0 ? "+" : MINUS}${Math.floor(size / 60)}${size % 60 ? ":" + pad(size % 60) : ""}`;
  }

  /* ---- cells: HTML of a figure of a row, with everything it may have to admit ---- */
  const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };
  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => ENTITIES[c]);
  const why = (row) => {
    const since = row.unknown_since_ms ? ` data-since="${row.unknown_since_ms}"` : "";
    if (!row.reason && !since) return "";
    return ` tabindex="0" data-why="${escape(row.reason || "")}"${since}`;
  };
  function unknown(row, name) {
    let known = row["known_" + name],
      at = row.known_at_ms;
    if (name === "lag" && !missing(row.committed_offset) && !missing(row.max_offset)) {
      known = Math.max(0, row.max_offset - row.committed_offset); // a queue keeps its offsets as last read
      at = row.read_at_ms || null;
    }
    if (missing(known) || missing(at)) return `<span class="unknown"${why(row)}>${gettext("unknown")}</span>`;
    const last = `data-known="${escape(known)}" data-known-at="${escape(at)}"`;
    const time = `<time data-at="${at}" data-as="clock">${clock(at)}</time>`;
    const words = say(gettext("as of %(time)s"), { time });
    const reason = why(row) || ` tabindex="0" data-why=""`; // the popover has the last value
    return `<span class="unknown"${reason} ${last}>${count(known)}</span><small class="then">${words}</small>`;
  }
  const atLeast = (row) => `<span class="atleast"${why(row)}>≥</span>`;
  /* made of offsets: where those are not a count of messages, there are at most as many */
  const COUNTED = new Set(["lag", "available", "in_flight", "messages"]);
  const LONGEST = new Set(["worst_time_lag_ms", "retained_ms"]); // at least so long, with a part of the row unknown
  const PARTS_OF_LAG = new Set(["available", "in_flight"]); // sums over the same queues as the lag
  function boundOf(row, name) {
    const isLow = row[(PARTS_OF_LAG.has(name) ? "lag" : name.replace(/_ms$/, "")) + "_lower_bound"];
    if (row.offset_is_not_count && COUNTED.has(name))
      return `<span class="atleast"${why(row)}>${isLow ? "≈" : "≤"}</span>`;
    return isLow ? atLeast(row) : "";
  }
  const NA = '<span class="na">–</span>';
  const zero = (text) => `<span class="zero">${text}</span>`;
  const missing = (value) => value === null || value === undefined;

  const ticking = (ms, now) => `<time data-at="${ms}" data-as="age">${age(now - ms)}</time>`;

  function figure(row, name, text, isZero, tone) {
    const bound = boundOf(row, name);
    if (isZero && !bound) return zero(text);
    return bound + (tone ? `<span class="${tone}">${text}</span>` : text);
  }
  const absent = (row, name) => (row.status === "NEVER_COMMITTED" ? NA : unknown(row, name));

  function badge(code) {
    const [family, shape, word] = STATUSES[code] || ["unknown", "unknown", escape(code)];
    return `<span class="badge badge--${family} s-${shape}">${word}</span>`;
  }
  // heights of a sparkline, as in cells.py
  const LEVELS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const CELLS = {
    count: (row, name) =>
      missing(row[name]) ? absent(row, name) : figure(row, name, count(row[name]), row[name] === 0),
    rate(row, name) {
      if (missing(row[name])) return unknown(row);
      const bound = row.partial ? atLeast(row) : "";
      return row[name] === 0 && !bound ? zero("0") : bound + escape(rate(row[name]));
    },
    // the rate of a group as a share of what arrives, of the same two figures that stand beside it
    pace(row, name) {
      if (!row.in_rate || missing(row[name]) || row.partial) return gettext("committed");
      return say(gettext("%(share)s of what arrives"), { share: percent(row[name] / row.in_rate) });
    },
    duration: (row, name) =>
      missing(row[name]) ? absent(row) : figure(row, name, duration(row[name]), row[name] === 0),
    time_lag: (row, name) =>
      missing(row[name])
        ? absent(row)
        : figure(row, name, duration(row[name]), row[name] === 0, TIME_TONES[row.status]),
    drain(row, name) {
      if (row.drain_never) return `<span class="t-warn">${pgettext("drains", "never")}</span>`;
      const value = row[name];
      if (missing(value))
        return missing(row.lag) ? absent(row) : row.lag === 0 && !row.lag_lower_bound ? zero(duration(0)) : NA;
      if (value === 0) return zero(duration(0));
      return value < 5 * SECOND ? `&lt; ${unit(5, "s")}` : duration(value);
    },
    clients(row, name, now) {
      if (missing(row[name])) return unknown(row);
      if (row[name]) return count(row[name]);
      const since = row.offline_since_ms ? ` <span class="since">${ticking(row.offline_since_ms, now)}</span>` : "";
      return `<span class="muted">${pgettext("no client", "none")}${since}</span>`;
    },
    status(row, name) {
      const code = row[name] || "UNKNOWN";
      return badge(code) + (row.partial && code !== "UNKNOWN" ? ` <span class="asof"${why(row)}>?</span>` : "");
    },
    // a job whose worker stopped reporting
    job(row, name, now) {
      const isSilent = !missing(row.silent_from_ms) && now >= row.silent_from_ms;
      return badge(isSilent ? "WAITING" : row[name]);
    },
    trend(row, name) {
      const [family] = STATUSES[row.status || "OK"] || ["ok"];
      const values = row[name] || [],
        steps = (LEVELS.length - 1) / (values.reduce((most, value) => Math.max(most, value), 0) || 1),
        heights = values.map((value) => (missing(value) ? "-" : LEVELS[Math.floor(value * steps + 0.5)])).join("");
      const tone = family === "ok" ? "" : ` class="g-${family}"`;
      // the plot begins where its data begin
      return `<svg${tone} data-trend="${heights.replace(/^-+/, "")}"></svg>`;
    },
    never_committed(row, name) {
      const waiting = (row[name] || []).reduce((sum, topic) => sum + (topic.never_committed_lag || 0), 0);
      if (!waiting) return "";
      const tip = gettext(
        "Messages in queues without a committed offset are not part of any lag. Where a client starts is its own setting.",
      );
      const words = say(gettext("%(count)s never committed"), { count: count(waiting) });
      const bound = row.partial ? atLeast(row) : "";
      return ` + ${bound}<span class="nowrap" tabindex="0" data-tip="${escape(tip)}">${words}</span>`;
    },
    progress(row, name) {
      const { done, total } = row[name] || {};
      return missing(total)
        ? NA
        : say(gettext("%(done)s of %(total)s"), { done: count(done || 0), total: count(total) });
    },
    latency: (row, name) => (missing(row[name]) ? NA : latency(row[name])),
    optional: (row, name) => (missing(row[name]) ? NA : figure(row, name, count(row[name]), row[name] === 0)),
    optional_duration(row, name) {
      if (missing(row[name])) return row.partial ? unknown(row) : NA;
      const isLow = row.partial && LONGEST.has(name);
      const shown = figure(row, name, duration(row[name]), row[name] === 0 && !isLow);
      return isLow ? atLeast(row) + shown : shown;
    },
    // the mark of a status, beside the name of its group, which follows
    worst_time_lag(row, name) {
      const shown = CELLS.optional_duration(row, name);
      if (missing(row[name]) || !row.worst_status) return shown;
      const [family, shape, word] = STATUSES[row.worst_status] || ["unknown", "unknown", escape(row.worst_status)];
      return `<span class="badge badge--beside badge--${family} s-${shape}" title="${word}">${shown}</span>`;
    },
    // a link within the cluster; null: a group that this reader may not see
    worst_group(row, name) {
      const group = row[name];
      if (missing(group)) return `<span class="muted">${gettext("not shown")}</span>`;
      return group ? `<a href="groups/${encodeURIComponent(group)}">${escape(group)}</a>` : NA;
    },
    loss(row, name) {
      const value = row[name];
      if (row.status === "LOST") return `<span class="t-bad">${gettext("losing now")}</span>`;
      if (!missing(value)) {
        const reason = gettext(
          "A lower bound: how long the broker really keeps messages, or how fast the group reads them, is not known yet.",
        );
        const bound = boundOf(row, name) && atLeast({ reason });
        const tone = bound ? "" : value < HOUR ? "t-bad" : value < DAY ? "t-warn" : "";
        return `${bound}<span class="${tone}">${duration(value)}</span>`;
      }
      return row.time_to_loss_never ? `<span class="muted">${gettext("not in sight")}</span>` : absent(row);
    },
    text: (row, name) => (missing(row[name]) || row[name] === "" ? NA : escape(row[name])),
    // an id whose end, where those of one host differ, stays in sight
    owner(row, name) {
      const value = row[name];
      if (!value) return NA;
      const [head, end] = [value.slice(0, -7), value.slice(-7)].map(escape);
      return `<span class="cut" data-tip="${head}${end}"><span>${head}</span><span>${end}</span></span>`;
    },
    // what only our rounds can notice: not seen is not never
    seen(row, name, now) {
      if (row.reset_pending) {
        const reason = gettext(
          "This offset was set by a change, and no client has committed since: it is a target, not progress.",
        );
        const words = gettext("reset pending");
        return `<span class="tag tag--warn" tabindex="0" data-why="${escape(reason)}">${words}</span>`;
      }
      return missing(row[name]) ? `<span class="muted">${gettext("not seen")}</span>` : ticking(row[name], now);
    },
    ago: (row, name, now) =>
      missing(row[name]) ? `<span class="muted">${gettext("never")}</span>` : ticking(row[name], now),
  };
  const cell = (row, name, kind, now) => CELLS[kind](row, name, now);

  window.Tide = {
    ...window.Tide,
    text: say,
    count,
    compact,
    rate,
    duration,
    age,
    latency,
    size,
    percent,
    clock,
    day,
    moment,
    zoneOffset,
    escape,
    badge,
    cell,
    LEVELS,
    STATUSES,
  };
})();
