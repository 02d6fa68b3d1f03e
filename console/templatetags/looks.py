"""How bad something is, as colour, shape and word: levels of notes, and states that no live cell shows.

Statuses of rows, plans and jobs, which scripts render too, are in `statuses.STATUSES`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from console.group.pause.page import PAUSED, READS, STOPPED, UNABLE
from console.operation.job import runner
from console.operation.models import Job, JobState
from console.templatetags.statuses import named_badge, named_glyph
from spark.lag.local_time import HOUR_MS

register = template.Library()


class Look(NamedTuple):
    """Colour family of the style sheets, shape in the sprite, word."""

    family: str
    shape: str
    word: str


DANGER = Look("bad", "lost", gettext_noop("Danger"))
WARNING = Look("warn", "behind", gettext_noop("Warning"))
GOOD = Look("ok", "ok", gettext_noop("Good"))
NOTE = Look("catch", "never", gettext_noop("Note"))
# Of warnings of plans and events of jobs.
LEVELS: Mapping[str, Look] = {"danger": DANGER, "warn": WARNING, "ok": GOOD, "info": NOTE}

VERIFIED = Look("ok", "ok", gettext_noop("verified"))
FAILED = Look("bad", "lost", gettext_noop("failed"))
WAITING = Look("offline", "never", gettext_noop("waiting"))
# What becomes of a row of a job: the same steps, a word of its own for the second.
ROWS: Mapping[str, Mapping[str, Look]] = {
    "offsets": {
        "verified": VERIFIED,
        "applied": Look("catch", "catch", gettext_noop("applied")),
        "passed": Look("ok", "ok", gettext_noop("unchanged")),
        "failed": FAILED,
    },
    "config": {
        "verified": VERIFIED,
        "applied": Look("catch", "catch", gettext_noop("written")),
        "failed": FAILED,
    },
    "routes": {"verified": VERIFIED, "applied": Look("catch", "catch", gettext_noop("notified"))},
}
# Of a group on a topic that it does not read.
PAUSES: Mapping[str, Look] = {
    PAUSED: Look("warn", "stopped", gettext_noop("Paused")),
    STOPPED: Look("warn", "stopped", gettext_noop("group stopped")),
}
# Of what has to be over before a broker is stopped.
CHECKS: Mapping[str, Look] = {
    "YES": Look("ok", "ok", gettext_noop("yes")),
    "NOT_YET": Look("warn", "behind", gettext_noop("not yet")),
    "UNKNOWN": Look("unknown", "unknown", gettext_noop("cannot tell")),
    "NONE": Look("offline", "never", gettext_noop("nothing to check")),
}
TOKENS: Mapping[str, Look] = {
    "valid": Look("ok", "ok", gettext_noop("Valid")),
    "expired": Look("offline", "offline", gettext_noop("Expired")),
    "revoked": Look("offline", "offline", gettext_noop("Revoked")),
}

# The step of `operation/_steps.html` at which a job stands: applied, verified, all done.
JOB_STEPS: Mapping[str, int] = {"VERIFYING": 6, "FAILED": 6, "SUCCEEDED": 7}
APPLY_STEP = 5
SILENCE_MS = 2500
PUT_SLOW_MS = 50
FULL_TONES = ((3 * HOUR_MS, "t-bad"), (12 * HOUR_MS, "t-warn"))


def badge(look: Look) -> SafeString:
    return named_badge(look.family, look.shape, gettext(look.word))


@register.simple_tag
def level_glyph(level: str) -> SafeString:
    """Render a level as its shape alone, with its word for screen readers."""
    look = LEVELS[level]
    return named_glyph(look.family, look.shape, gettext(look.word))


@register.filter
def level_look(level: str) -> Look:
    """Return how a level looks: `{% with look=event.level|level_look %}`."""
    return LEVELS[level]


@register.filter
def answer_banner(result: str) -> str:
    """Return the kind of banner around what a client answered to one message."""
    return "ok" if result == "CR_SUCCESS" else "bad"


@register.filter
def silence_ms(job: Job) -> int | None:
    """Return after how long without news the page of a job fetches it again; None while no news are due."""
    return None if job.is_final or job.state == JobState.PAUSED else SILENCE_MS


@register.simple_tag
def row_badge(rows: str, state: str) -> SafeString:
    """Render what became of a row of a job: `{% row_badge "config" row.state %}`."""
    return badge(ROWS[rows].get(state, WAITING))


@register.simple_tag
def check_badge(state: str) -> SafeString:
    """Render whether a check of stopping a broker says yes."""
    return badge(CHECKS[state])


@register.filter
def shown_state(job: Job) -> str:
    """Return the state of a job as pages show it: `{% status job|shown_state %}`."""
    return runner.shown_state(job, int(time.time() * 1000))


@register.simple_tag
def pause_state(state: str) -> SafeString:
    """Render whether a group reads a topic on a broker."""
    if state in PAUSES:
        return badge(PAUSES[state])
    if state == READS:
        return format_html('<span class="muted">{}</span>', gettext("may read"))
    if state == UNABLE:
        return format_html('<span class="na">{}</span>', gettext("cannot be paused"))
    return format_html(
        '<span class="unknown" tabindex="0" data-why="{}">{}</span>',
        gettext("The broker did not answer."),
        gettext("unknown"),
    )


@register.filter
def put_tone(milliseconds: float) -> str:
    """Return the class of how long the slowest puts of a broker take."""
    return "t-warn" if milliseconds >= PUT_SLOW_MS else ""


@register.filter
def full_tone(milliseconds: int) -> str:
    """Return the class of the time until a disk is full."""
    return next((tone for below_ms, tone in FULL_TONES if milliseconds < below_ms), "")


@register.simple_tag
def token_badge(state: str) -> SafeString:
    return badge(TOKENS[state])


@register.filter
def job_step(state: str) -> int:
    """Return the number of the step at which a job stands: `{% include … with step=job.state|job_step %}`."""
    return JOB_STEPS.get(state, APPLY_STEP)
