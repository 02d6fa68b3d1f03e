"""Messages that a broker has stored and no consumer can see yet: delayed ones, those for a set time, half messages.

They are in no lag: they are not in their topic. Delayed ones wait in SCHEDULE_TOPIC_XXXX, a queue for each level;
those for a set time (5.x) in the timer wheel; half messages, of transactions that have not ended, in
RMQ_SYS_TRANS_HALF_TOPIC. Counts are of one broker, messages; null is unknown, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from console.broker.models import BrokerSurvey
from console.broker.survey import runtime
from console.broker.survey.connections import WaitingLevel
from console.brokers.mqadmin import TopicStatsTable, is_system_topic
from console.text import Text

LATE_MS = 60_000  # a level is checked every 100 ms (4.x: 1 s): this late, it is not being delivered
TIMER_LATE_S = 60  # the wheel turns once a second
UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NOT_YET = Text("the first survey is not done yet")
NEVER = Text("generated data: there is no broker to survey")


def levels(table: TopicStatsTable, progress: Mapping[int, int]) -> list[WaitingLevel]:
    """Return each delay level with messages; one without progress has delivered nothing since its oldest."""
    found = []
    for queue, offsets in sorted(table.offset_table.items(), key=lambda item: item[0].queue_id):
        level = queue.queue_id + 1
        waiting = offsets.max_offset - max(progress.get(level, 0), offsets.min_offset)
        if waiting > 0:
            newest_ms = offsets.last_update_timestamp or None
            found.append(WaitingLevel(level=level, waiting=waiting, newest_ms=newest_ms))
    return found


def half_messages(table: TopicStatsTable, ended: int | None) -> int:
    """Return an upper bound of the half messages that have not ended.

    The broker records progress only when it checks, and stores those it checks again anew. `ended` null: it never
    recorded any.
    """
    return sum(
        max(0, offsets.max_offset - max(ended or 0, offsets.min_offset))
        for queue, offsets in table.offset_table.items()
        if queue.queue_id == 0
    )


def delays_ms(config: Mapping[str, str] | None) -> list[int]:
    """Return the delay of each level, first level first; [] when the configuration does not list them."""
    words = ((config or {}).get("messageDelayLevel") or "").split()
    found = [re.fullmatch(r"(\d{1,9})([smhd])", word) for word in words]
    return [int(one[1]) * UNIT_MS[one[2]] for one in found if one is not None]


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """One delay level; `delay_ms` is null while the configuration is unknown.

    `late_ms`: how long ago even its newest message was due; null if the level is delivered.
    """

    level: int
    delay_ms: int | None
    waiting: int
    late_ms: int | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """One broker's messages that wait, as its last survey counted them; each null has its reason.

    `delayed` is the sum of `levels`; retries of consumers wait there too. `timed` is of ordinary topics only, by topic
    in `timed_topics`, most first. `half` is an upper bound.
    """

    read_at_ms: int | None
    delayed: int | None
    delayed_reason: Text
    levels: Sequence[DelayLevel]
    timed: int | None
    timed_reason: Text
    timed_topics: Sequence[tuple[str, int]]
    timer_late_s: float | None
    half: int | None
    half_reason: Text

    @property
    def late(self) -> list[DelayLevel]:
        """Return the levels that are not being delivered."""
        return [one for one in self.levels if one.late_ms is not None]


def held_back(
    survey: BrokerSurvey | None,
    figures: Mapping[str, str],
    clock_offset_ms: int | None = None,
    *,
    without_survey: Text = NOT_YET,
) -> HeldBack:
    """Return the messages that one broker holds back, from its survey's row and its runtime table (28).

    The row is null before the first survey, and ``without_survey`` says why. The broker's clock is
    `clock_offset_ms` ahead of the console's.
    """
    if survey is None or survey.held_back_at_ms is None:
        why = without_survey
        return HeldBack(None, None, why, (), None, why, (), None, None, why)
    delays = delays_ms(survey.config)
    its_now_ms = survey.held_back_at_ms + (clock_offset_ms or 0)
    kept = msgspec.convert(survey.delayed or (), list[WaitingLevel])
    known = [_level(one, delays, its_now_ms) for one in kept]
    timed, timed_reason = timed_messages(survey, figures)
    return HeldBack(
        read_at_ms=survey.held_back_at_ms,
        delayed=None if survey.delayed is None else sum(one.waiting for one in known),
        delayed_reason=survey.delayed_reason,
        levels=known,
        timed=None if timed is None else sum(timed.values()),
        timed_reason=timed_reason,
        timed_topics=sorted((timed or {}).items(), key=lambda one: (-one[1], one[0])),
        timer_late_s=runtime.number(figures.get("timerReadBehind")),
        half=survey.half,
        half_reason=survey.half_reason,
    )


def _level(kept: WaitingLevel, delays: Sequence[int], at_ms: int) -> DelayLevel:
    delay_ms = delays[kept.level - 1] if kept.level <= len(delays) else None
    late_ms = None
    if delay_ms is not None and kept.newest_ms is not None:
        late_ms = at_ms - kept.newest_ms - delay_ms
    return DelayLevel(
        kept.level,
        delay_ms,
        kept.waiting,
        late_ms if late_ms is not None and late_ms > LATE_MS else None,
    )


def timed_messages(survey: BrokerSurvey, figures: Mapping[str, str]) -> tuple[dict[str, int] | None, Text]:
    """Return messages in the timer wheel by ordinary topic, or None with a reason.

    POP keeps its own check points there. A wheel reported as empty, in the same survey, needs no table.
    """
    if survey.timed is not None:
        own = {topic: count for topic, count in survey.timed.items() if count > 0}
        return {topic: count for topic, count in own.items() if not is_system_topic(topic)}, Text()
    if not survey.runtime_reason and runtime.number(figures.get("timerCongestNum")) == 0:
        return {}, Text()
    return None, survey.timed_reason
