"""An offset change in words: what it replays and skips, how long that takes, what to beware of, and how it is
asked for without the pages. Pure; times are arguments."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from console.group.offsets.change import RESET_BY_TIME, RESET_PER_QUEUE, UPDATE_PER_QUEUE, Change, Wish
from console.group.offsets.state import GroupState
from console.lag.rows.broadcast import BROADCASTING
from console.operation.plan.kinds import PlanWarning
from console.operation.plan.params import ACCEPT_WITHOUT
from console.text.figures import duration, rate

NAMED_MAX = 3  # queues, topics or brokers that are named; the others are counted
RECENT_MS = 10 * 60_000  # a rate older than this is not "present"


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How fast the group goes, messages per second; None: not known. ``best``: its best minute of the last
    hour; ``was_behind``: it was measured while the group was behind, and so is all it can read. Else the group
    read what came, and can read more."""

    in_rate: float | None = None
    out_rate: float | None = None
    best: float | None = None
    was_behind: bool = True

    @property
    def speed(self) -> float | None:
        """What the group has shown that it can do."""
        return max((each for each in (self.best, self.out_rate) if each), default=None)


# --- Totals -------------------------------------------------------------------------------------------------


def replayed(rows: Iterable[Change]) -> int:
    """Messages that are delivered again, and those of queues that were never committed."""
    total = 0
    for row in rows:
        if row.moves and row.after is not None:
            if row.before is None:
                total += row.max_offset - row.after
            elif row.after < row.before:
                total += min(row.before, row.max_offset) - row.after
    return total


def skipped(rows: Iterable[Change]) -> int:
    """Messages that are never delivered to the group."""
    return sum(
        row.after - max(row.before, row.min_offset)
        for row in rows
        if row.before is not None and row.after is not None and row.after > max(row.before, row.min_offset)
    )


def summary(
    group: str, rows: Sequence[Change], span: tuple[int, int] | None, pace: Pace, online: bool, now_ms: int
) -> str:
    """The change in two sentences: what, and how long. ``span``: store times of the first and last message
    concerned."""
    moving = [row for row in rows if row.moves]
    if not moving:
        return nothing_moves(rows, group)
    again, past = replayed(rows), skipped(rows)
    deeds = []
    if again:
        deeds.append(f"replay {plural(again, 'message')}")
    if past:
        deeds.append(f"skip {plural(past, 'message')}")
    topics = sorted({row.queue.topic for row in moving})
    where = ", ".join(topics) if len(topics) <= NAMED_MAX else f"{len(topics)} topics"
    written = "" if span is None else f", written {time_span(span, now_ms)}"
    what = " and ".join(deeds) or "move offsets without touching a message that is still stored"
    deed = f"This will {what} on {plural(len(moving), 'queue')} of {where}{written}."
    return f"{deed} {how_long(again, rows, pace, online)}" if again else deed


def nothing_moves(rows: Sequence[Change], group: str = "") -> str:
    """Why a plan moves no queue: those that stand there already, and those that are left alone."""
    of = f" of {group}" if group else ""
    alone = Counter(row.note for row in rows if row.after is None)
    level = len(rows) - sum(alone.values())
    parts = [f"{plural(level, 'queue')}{of} {_verb(level, 'stand')} at the target already"] if level else []
    parts += [
        f"{plural(number, 'queue')} {_verb(number, 'stay')} as before: {note}"
        for note, number in alone.items()
    ]
    return f"This would change nothing: {'; '.join(parts) or 'no queue is in scope'}."


def how_long(again: int, rows: Sequence[Change], pace: Pace, online: bool) -> str:
    """How long the replay takes at the speed the group has shown."""
    speed = pace.speed
    if speed is None:
        return "How long that takes is not known: the group was not seen reading in the last hour."
    when = "" if online else ", once members are online"
    said = f"At {rate(speed)} messages a second, its best minute of the last hour"
    if pace.best is None or (pace.out_rate is not None and pace.out_rate >= pace.best):
        said = f"At its present rate of {rate(speed)} messages a second"
    if not pace.in_rate or not pace.was_behind:
        return f"{said}, that takes about {duration(again / speed * 1000)}{when}."
    waiting = sum(
        max(0, row.max_offset - (row.before or 0 if row.after is None else row.after)) for row in rows
    )
    arriving = f"while {rate(pace.in_rate)} a second come in"
    if speed <= pace.in_rate:
        return f"{said}, {arriving}, it would not become level again{when}."
    level = duration(waiting / (speed - pace.in_rate) * 1000)
    return f"{said}, {arriving}, it is level again in about {level}{when}."


def time_span(span: tuple[int, int], now_ms: int) -> str:
    """``09:00:12–11:42:03 UTC``, with the date where it is not today's."""
    first, last, today = (_utc(ms) for ms in (*span, now_ms))
    if first.date() == last.date() == today.date():
        return f"{first:%H:%M:%S}–{last:%H:%M:%S} UTC"
    if first.date() == last.date():
        return f"{first:%Y-%m-%d %H:%M:%S}–{last:%H:%M:%S} UTC"
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"


def moment(at_ms: int) -> str:
    """``2026-03-12 08:20:00 UTC``."""
    return f"{_utc(at_ms):%Y-%m-%d %H:%M:%S} UTC"


def plural(number: int, noun: str) -> str:
    """``1 queue``, ``1,204 queues``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _utc(at_ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)


# --- Warnings -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """From how many messages on a change must be confirmed by typing, and by a second person (None: never)."""

    typed_from: int | None
    second_person_from: int | None


def warnings(
    state: GroupState, wish: Wish, rows: Sequence[Change], limits: Limits, seen_model: str, sampled: str
) -> list[PlanWarning]:
    """The banners of the plan page, most important first. ``sampled``: where recorded offsets come from."""
    moving = [row for row in rows if row.moves]
    older = [row for row in rows if row.note.startswith("asked for") and "oldest" in row.note]
    found = [*_retention(older), *_never_committed(moving), *_size(replayed(rows) + skipped(rows), limits)]
    found += [*_left_alone(rows), *_time(wish, state.read_at_ms)]
    found += [PlanWarning("info", "Offsets as this console recorded them", sampled)] if sampled else []
    found += _telling(state, moving, seen_model)
    if moving and not older:
        found.append(PlanWarning("ok", "Every target is still retained", "No queue starts later than asked."))
    return found


def _retention(older: Sequence[Change]) -> Iterable[PlanWarning]:
    if older:
        title = f"{plural(len(older), 'queue')} can not go back that far"
        text = "The messages asked for are older than retention; these queues start at the oldest one stored."
        yield PlanWarning("warn", title, text)


def _never_committed(moving: Sequence[Change]) -> Iterable[PlanWarning]:
    never = [row for row in moving if row.before is None]
    if never:
        title = f"{plural(len(never), 'queue')} {'has' if len(never) == 1 else 'have'} never been committed"
        text = f"{_queue_names(never)}: undo can not take a first offset away again."
        yield PlanWarning("warn", title, text)


def _size(messages: int, limits: Limits) -> Iterable[PlanWarning]:
    """More than n messages: what the cluster asks of people for such a change."""
    second, typed = limits.second_person_from, limits.typed_from
    if second is not None and messages >= second:
        text = f"From {second:,} messages on, this cluster wants a second person to agree."
    elif typed is not None and messages >= typed:
        text = f"From {typed:,} messages on, the name of the group is typed to confirm."
    else:
        return
    yield PlanWarning("warn", f"{plural(messages, 'message')} are concerned", text)


def _left_alone(rows: Sequence[Change]) -> Iterable[PlanWarning]:
    alone = [row for row in rows if row.after is None]
    if alone and len(alone) < len(rows):
        reasons = "; ".join(sorted({row.note for row in alone})[:NAMED_MAX])
        title = f"{plural(len(alone), 'queue')} {_verb(len(alone), 'stay')} as before"
        yield PlanWarning("warn", title, f"{_queue_names(alone)}: {reasons}.")


def _time(wish: Wish, now_ms: int) -> Iterable[PlanWarning]:
    if wish.target == "time" and wish.time_ms is not None and wish.time_ms > now_ms:
        text = f"{moment(wish.time_ms)} has not come yet: every queue goes to its end, what waits is skipped."
        yield PlanWarning("warn", "The time lies in the future", text)


TELLING = {
    RESET_PER_QUEUE: "{where} moves the offsets and tells the members itself (222 per queue); each drops "
    "what it has in flight and starts again, as a rule within 10 s",
    RESET_BY_TIME: "{where} can only pass a time on to the members (222, as RocketMQ 4.x does); each looks up its own "
    "queues, drops what it has in flight and starts again after about 10 s",
    UPDATE_PER_QUEUE: "{where} is written directly (15) for queues without a stored offset, members find them at "
    "their next rebalance",
}


def _telling(state: GroupState, moving: Sequence[Change], seen_model: str) -> Iterable[PlanWarning]:
    """Whether members run, and how they learn of the change."""
    if not state.online:
        yield PlanWarning(
            "info",
            "No member is online",
            "The offsets are written to the brokers (15); members read them when they start.",
        )
        if seen_model == BROADCASTING:
            text = (
                "When its members were last seen they kept their own offsets in files; what brokers hold "
                "is not read by them."
            )
            yield PlanWarning("danger", "The group was broadcasting", text)
        return
    where: dict[str, set[str]] = {}
    for row in moving:
        where.setdefault(row.how, set()).add(row.queue.broker_name)
    ways = [text.format(where=", ".join(sorted(where[how]))) for how, text in TELLING.items() if how in where]
    text = ". ".join(ways)
    yield PlanWarning(
        "info",
        f"The group is online: {plural(len(state.clients), 'client')}",
        f"{text}{'. ' if text else ''}Messages in flight may be handled twice.",
    )


def _queue_names(rows: Sequence[Change]) -> str:
    names = ", ".join(f"{row.queue.broker_name} · {row.queue.queue_id}" for row in rows[:NAMED_MAX])
    return f"{names} and {len(rows) - NAMED_MAX} more" if len(rows) > NAMED_MAX else names


# --- The same without the pages -----------------------------------------------------------------------------


def made_by(cluster: str, group: str, params: Mapping[str, Any]) -> dict[str, str]:
    """How this plan is asked for over REST (path, and body quoted for a shell) and from a shell."""
    return {
        "path": f"/api/v1/clusters/{cluster}/offset-plans",
        "body": shlex.quote(json.dumps({"group": group, **params}, ensure_ascii=False)),
        "command": command_line(cluster, group, params),
    }


def command_line(cluster: str, group: str, params: Mapping[str, Any]) -> str:
    """``manage.py offsets plan …`` with the same wish, quoted for a shell."""
    words = ["manage.py", "offsets", "plan", group, "--cluster", cluster, "--target", str(params["target"])]
    queues = params.get("queues") or []
    if not queues and params["target"] != "exact":
        words += [part for topic in params.get("topics") or [] for part in ("--topic", topic)]
    words += [part for queue in queues for part in ("--queue", _queue_word(queue))]
    if "time_ms" in params:
        at = datetime.datetime.fromtimestamp(params["time_ms"] / 1000, tz=datetime.UTC)
        words += ["--time", at.isoformat(timespec="milliseconds").replace("+00:00", "Z")]
    if "offset" in params:
        words += ["--offset", str(params["offset"])]
    if "shift" in params:
        words.append(f"--shift={params['shift']}")
    words += ["--like", params["like_group"]] if params.get("like_group") else []
    words += ["--plan", params["undo_plan"]] if params.get("undo_plan") else []
    for each in params.get("offsets") or []:
        words += ["--set", f"{_queue_word(each)}={each['offset']}"]
    words += [part for name in params.get(ACCEPT_WITHOUT) or () for part in ("--accept-without", name)]
    return shlex.join(words)


def _queue_word(queue: Mapping[str, Any]) -> str:
    """Topic and broker names hold no slash (RocketMQ allows ``%|a-zA-Z0-9_-`` only)."""
    return f"{queue['topic']}/{queue['broker_name']}/{queue['queue_id']}"
