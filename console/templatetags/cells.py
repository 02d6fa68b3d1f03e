"""Cells: a figure of a row as markup, with everything it may have to admit.

`static/js/figures.js` does the same for cells that change live; `tests/console/figures.json` holds literal cases
for both. The four kinds of "no number" never look alike: unknown (violet, with since when and why), lower bound
(≥), not applicable (–) and zero (grey 0).
"""

from __future__ import annotations

import datetime as dt
import math
import string
from collections.abc import Mapping, Sequence

# Django's escape looks for lazy texts first: four times as long, for each of the hundreds of cells of a page
from html import escape
from typing import Any
from urllib.parse import quote

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, pgettext

from console.templatetags.statuses import STATUSES, TIME_TONES, status_parts
from console.text import figures as english
from console.text.figures import SECOND_MS, clock, count, percent, rate
from console.text.language import figure_words
from spark.lag.local_time import DAY_MS, HOUR_MS

UTC = dt.UTC

# ---- the same as console.text.figures, with units and months in the reader's language ----


def age(milliseconds: float) -> str:
    return figure_words(english.age(milliseconds))


def duration(milliseconds: float) -> str:
    return figure_words(english.duration(milliseconds))


def latency(milliseconds: float) -> str:
    return figure_words(english.latency(milliseconds))


def moment(milliseconds: int, zone: dt.tzinfo, *, now_ms: int, with_ms: bool = False) -> str:
    return figure_words(english.moment(milliseconds, zone, now_ms=now_ms, with_ms=with_ms))


# ---- cells: a figure of a row, with its uncertainty ----


def value_of(row: object, name: str) -> Any:
    """Return a column of a model, a dataclass or a published dict; an absent one is unknown (None)."""
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


def _why(row: object) -> SafeString:
    """Return the attributes of the popover: why, and since when (see shell.js); none without a reason."""
    reason, since = value_of(row, "reason") or "", value_of(row, "unknown_since_ms")
    if not reason and not since:
        return SafeString()
    since_attr = f' data-since="{int(since)}"' if since else ""
    return SafeString(f' tabindex="0" data-why="{conditional_escape(reason)}"{since_attr}')


def unknown(row: object, name: str = "") -> SafeString:
    """Render an unknown value, or the last complete one: `known_lag` as of `known_at_ms` for `lag`."""
    known, at_ms = value_of(row, f"known_{name}"), value_of(row, "known_at_ms")
    committed, high = value_of(row, "committed_offset"), value_of(row, "max_offset")
    if name == "lag" and committed is not None and high is not None:  # a queue keeps its offsets as last read
        known, at_ms = max(0, high - committed), value_of(row, "read_at_ms") or None
    if known is None or at_ms is None:
        return format_html('<span class="unknown"{}>{}</span>', _why(row), _("unknown"))
    why = _why(row) or mark_safe(' tabindex="0" data-why=""')  # noqa: S308 - the popover has the last value
    last = format_html('{} data-known="{}" data-known-at="{}"', why, known, at_ms)
    time = format_html('<time data-at="{}" data-as="clock">{}</time>', at_ms, clock(at_ms, UTC))
    words = mark_safe(_("as of %(time)s") % {"time": time})  # noqa: S308 - a sentence of ours around markup of ours
    return format_html(
        '<span class="unknown"{}>{}</span><small class="then">{}</small>', last, count(known), words
    )


def at_least(row: object) -> SafeString:
    return SafeString(f'<span class="atleast"{_why(row)}>≥</span>')


# Made of offsets: where those are not a count of messages, there are at most as many.
COUNTED = frozenset({"lag", "lag_max", "available", "in_flight", "messages"})
PARTS_OF_LAG = frozenset({"available", "in_flight"})  # sums over the same queues as the lag


def bound_of(row: object, name: str) -> SafeString | str:
    """Return the sign before a bounded figure: ≥, ≤, or ≈ for bounds in both directions."""
    bounded = "lag" if name in PARTS_OF_LAG else name.removesuffix("_ms")
    is_low = bool(value_of(row, f"{bounded}_lower_bound"))
    if name in COUNTED and value_of(row, "offset_is_not_count"):
        return format_html('<span class="atleast"{}>{}</span>', _why(row), "≈" if is_low else "≤")
    return at_least(row) if is_low else ""


NOT_APPLICABLE = mark_safe('<span class="na">–</span>')  # noqa: S308 - a literal


def _zero(text: str) -> SafeString:
    return SafeString(f'<span class="zero">{escape(text)}</span>')


def _figure(row: object, name: str, text: str, is_zero: bool, tone: str = "") -> SafeString:
    bound = bound_of(row, name)
    if is_zero and not bound:
        return _zero(text)
    shown = escape(text)
    return SafeString(f'{bound}<span class="{tone}">{shown}</span>' if tone else f"{bound}{shown}")


def _absent(row: object, name: str = "") -> SafeString:
    """Render a missing number: not applicable if nothing was ever committed, else unknown and why."""
    return NOT_APPLICABLE if value_of(row, "status") == "NEVER_COMMITTED" else unknown(row, name)


def count_cell(row: object, name: str, now_ms: int) -> SafeString:
    value = value_of(row, name)
    return _absent(row, name) if value is None else _figure(row, name, count(value), value == 0)


def rate_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Rates of a partial row are lower bounds: the silent broker's share is missing."""
    value = value_of(row, name)
    if value is None:
        return unknown(row)
    bound = at_least(row) if value_of(row, "partial") else ""
    return _zero("0") if value == 0 and not bound else SafeString(f"{bound}{escape(rate(value))}")


def duration_cell(row: object, name: str, now_ms: int) -> SafeString:
    value = value_of(row, name)
    return _absent(row) if value is None else _figure(row, name, duration(value), value == 0)


def time_lag_cell(row: object, name: str, now_ms: int) -> SafeString:
    """A duration tinted by the row's status."""
    value = value_of(row, name)
    tone = TIME_TONES.get(value_of(row, "status") or "", "")
    return _absent(row) if value is None else _figure(row, name, duration(value), value == 0, tone)


def drain_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render `never`, `14 m`, `< 5 s`; – if no client drains it; unknown without a known lag."""
    if value_of(row, "drain_never"):
        return format_html('<span class="t-warn">{}</span>', pgettext("drains", "never"))
    value, lag = value_of(row, name), value_of(row, "lag")
    if value is None:
        if lag is None:
            return _absent(row)
        return _zero(duration(0)) if lag == 0 and not value_of(row, "lag_lower_bound") else NOT_APPLICABLE
    if value == 0:
        return _zero(duration(0))
    return SafeString(escape(figure_words("< 5 s") if value < 5 * SECOND_MS else duration(value)))


def clients_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the count, or `none` and since when there are no clients."""
    value, since = value_of(row, name), value_of(row, "offline_since_ms")
    if value is None:
        return unknown(row)
    if value:
        return SafeString(count(value))
    return format_html(
        '<span class="muted">{}{}</span>',
        pgettext("no client", "none"),
        format_html(' <span class="since">{}</span>', ticking(since, now_ms)) if since else "",
    )


def badge(code: str, *, plain: bool = False, large: bool = False, pill: bool = False) -> SafeString:
    """A status: colour, shape and word."""
    family, shape, word = status_parts(code)
    look = " badge--plain" * plain + " badge--lg" * large + " badge--pill" * pill
    return SafeString(f'<span class="badge badge--{family} s-{shape}{look}">{escape(word)}</span>')


def status_cell(row: object, name: str, now_ms: int) -> SafeString:
    """The badge; a known status with unknown parts keeps its badge and adds a violet `?`."""
    code = value_of(row, name) or "UNKNOWN"
    if value_of(row, "partial") and code != "UNKNOWN":
        return SafeString(f'{badge(code)} <span class="asof"{_why(row)}>?</span>')
    return badge(code)


def job_cell(row: object, name: str, now_ms: int) -> SafeString:
    """The badge of a job's state; of one whose worker has stopped reporting, that it waits for another."""
    silent_from_ms = value_of(row, "silent_from_ms")
    is_silent = silent_from_ms is not None and now_ms >= silent_from_ms
    return badge("WAITING" if is_silent else value_of(row, name))


def trend_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the trend of a row in the colour of its status."""
    family = STATUSES.get(value_of(row, "status") or "OK", ("ok", "", ""))[0]
    return sparkline(value_of(row, name) or [], family)


# The heights of a sparkline, from 0 to its largest value: more than it has pixels. `figures.js` has them too.
LEVELS = string.digits + string.ascii_letters


def sparkline(values: Sequence[float | None], family: str = "ok") -> SafeString:
    """Render the last hour, a character per minute, its height or `-` for unknown; sparkline.js draws and names it."""
    largest = max((value for value in values if value is not None), default=0) or 1
    steps = (len(LEVELS) - 1) / largest
    trend = "".join("-" if value is None else LEVELS[math.floor(value * steps + 0.5)] for value in values)
    look = "" if family == "ok" else f' class="g-{family}"'
    begun = trend.lstrip("-")  # the plot begins where its data begin
    return SafeString(f'<svg{look} data-trend="{begun}"></svg>')


def ago_cell(row: object, name: str, now_ms: int) -> SafeString:
    value = value_of(row, name)
    return (
        format_html('<span class="muted">{}</span>', _("never")) if value is None else ticking(value, now_ms)
    )


def seen_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render an age that only this console's rounds can observe: an unobserved event may still have happened.

    An offset that was set, and that no member confirmed, moved by no commit.
    """
    value = value_of(row, name)
    if value_of(row, "reset_pending"):
        why = _(
            "This offset was set by a change, and no client has committed since: it is a target, not "
            "progress."
        )
        words = _("reset pending")
        return format_html('<span class="tag tag--warn" tabindex="0" data-why="{}">{}</span>', why, words)
    return (
        format_html('<span class="muted">{}</span>', _("not seen"))
        if value is None
        else ticking(value, now_ms)
    )


def ticking(milliseconds: int, now_ms: int) -> SafeString:
    """Render an age that shell.js keeps up to date."""
    return SafeString(
        f'<time data-at="{milliseconds}" data-as="age">{escape(age(now_ms - milliseconds))}</time>'
    )


def never_committed_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the messages in queues without a commit of the group, which are in no lag."""
    waiting = sum(topic.get("never_committed_lag") or 0 for topic in value_of(row, name) or [])
    if not waiting:
        return SafeString("")
    tip = _(
        "Messages in queues without a committed offset are not part of any lag. Where a client starts is "
        "its own setting."
    )
    words = _("%(count)s never committed") % {"count": count(waiting)}
    bound = at_least(row) if value_of(row, "partial") else ""
    return format_html(' + {}<span class="nowrap" tabindex="0" data-tip="{}">{}</span>', bound, tip, words)


def pace_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the rate of a group as a share of what arrives, of the same two figures that stand beside it."""
    entering, leaving = value_of(row, "in_rate"), value_of(row, name)
    if not entering or leaving is None or value_of(row, "partial"):
        return SafeString(escape(_("committed")))
    return SafeString(escape(_("%(share)s of what arrives") % {"share": percent(leaving / entering)}))


def progress_cell(row: object, name: str, now_ms: int) -> SafeString:
    """`12 of 40` out of a job's progress."""
    value = value_of(row, name) or {}
    done, total = value.get("done"), value.get("total")
    if total is None:
        return NOT_APPLICABLE
    return SafeString(escape(_("%(done)s of %(total)s") % {"done": count(done or 0), "total": count(total)}))


def latency_cell(row: object, name: str, now_ms: int) -> SafeString:
    value = value_of(row, name)
    return NOT_APPLICABLE if value is None else SafeString(latency(value))


def optional_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render a count that only some rows have (pulled offsets of watched groups); – without one."""
    value = value_of(row, name)
    return NOT_APPLICABLE if value is None else _figure(row, name, count(value), value == 0)


# The longest of several: with a part of the row unknown it is at least so long.
LONGEST = frozenset({"worst_time_lag_ms", "retained_ms"})


def optional_duration_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render a duration that only some rows have; – without one, unknown if part of the row is unknown."""
    value, is_partial = value_of(row, name), bool(value_of(row, "partial"))
    if value is None:
        return unknown(row) if is_partial else NOT_APPLICABLE
    is_low = is_partial and name in LONGEST
    shown = _figure(row, name, duration(value), value == 0 and not is_low)
    return at_least(row) + shown if is_low else shown


def worst_time_lag_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the largest time lag of a topic, with the status of that group beside its name, which follows.

    One element: a list of topics has one a row.
    """
    shown, code = optional_duration_cell(row, name, now_ms), value_of(row, "worst_status")
    if value_of(row, name) is None or not code:
        return shown
    family, shape, word = status_parts(code)
    look = f"badge badge--beside badge--{family} s-{shape}"
    return SafeString(f'<span class="{look}" title="{escape(word)}">{shown}</span>')


def worst_group_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the group that this time lag is of, as a link within the cluster; None: the reader may not see it."""
    group = value_of(row, name)
    if group is None:
        return format_html('<span class="muted">{}</span>', _("not shown"))
    return SafeString(f'<a href="groups/{quote(group)}">{escape(group)}</a>') if group else NOT_APPLICABLE


# As `lag/rows/queue_rows.py` finds it; the reason of a row is that of its status.
LOSS_BOUND = gettext_noop(
    "A lower bound: how long the broker really keeps messages, or how fast the group reads them, is not known yet."
)
LOSS_TONES = ((HOUR_MS, "t-bad"), (DAY_MS, "t-warn"))  # a lower bound is no alarm and has none


def loss_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the time until retention deletes unread messages; `losing now`, `not in sight`, or unknown."""
    value = value_of(row, name)
    if value_of(row, "status") == "LOST":
        return format_html('<span class="t-bad">{}</span>', _("losing now"))
    if value is not None:
        bound = at_least({"reason": _(LOSS_BOUND)}) if bound_of(row, name) else ""
        tone = "" if bound else next((tone for below, tone in LOSS_TONES if value < below), "")
        return format_html('{}<span class="{}">{}</span>', bound, tone, duration(value))
    if value_of(row, "time_to_loss_never"):
        return format_html('<span class="muted">{}</span>', _("not in sight"))
    return _absent(row)


def text_cell(row: object, name: str, now_ms: int) -> SafeString:
    value = value_of(row, name)
    return NOT_APPLICABLE if value in (None, "") else conditional_escape(value)


OWNER_END = 7  # of an id: where those of one host differ


def owner_cell(row: object, name: str, now_ms: int) -> SafeString:
    """Render the id of a client whose end stays in sight where the column is narrower."""
    value = value_of(row, name)
    if not value:
        return NOT_APPLICABLE
    head, end = escape(value[:-OWNER_END]), escape(value[-OWNER_END:])
    return SafeString(
        f'<span class="cut" data-tip="{head}{end}"><span>{head}</span><span>{end}</span></span>'
    )


CELLS = {
    "count": count_cell,
    "rate": rate_cell,
    "duration": duration_cell,
    "time_lag": time_lag_cell,
    "drain": drain_cell,
    "clients": clients_cell,
    "status": status_cell,
    "job": job_cell,
    "trend": trend_cell,
    "ago": ago_cell,
    "seen": seen_cell,
    "never_committed": never_committed_cell,
    "pace": pace_cell,
    "progress": progress_cell,
    "latency": latency_cell,
    "optional": optional_cell,
    "optional_duration": optional_duration_cell,
    "worst_time_lag": worst_time_lag_cell,
    "worst_group": worst_group_cell,
    "loss": loss_cell,
    "text": text_cell,
    "owner": owner_cell,
}
