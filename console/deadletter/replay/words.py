"""Summary and banners of a replay plan. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from console.brokers.mqadmin import MessageQueue, MessageRecord, retry_topic
from console.deadletter.replay.copy import CLIENT, FAILED_GROUP, NOWHERE, ORIGINAL_TOPIC, OTHER_TOPIC
from console.deadletter.replay.direct import ClientAnswer
from console.deadletter.replay.params import ReplayParams
from console.deadletter.replay.preview import Preview
from console.operation.plan.kinds import PlanWarning
from console.text import Names, Text

NAMES_SHOWN = 5
# Where the copies of a replay go, on the page of its job.
TARGET_WORDS: Mapping[str, Text] = {
    FAILED_GROUP: Text("only this group receives the copies"),
    CLIENT: Text("one message to one client"),
    OTHER_TOPIC: Text("to another topic"),
    NOWHERE: Text("marked as handled, nothing is sent"),
    ORIGINAL_TOPIC: Text("to the original topic, for every group that reads it"),
}


def target_address(params: ReplayParams, group: str) -> Text | str:
    """Return the topic or the client that gets the copies."""
    addresses: Mapping[str, Text | str] = {
        FAILED_GROUP: retry_topic(group),
        CLIENT: params.client_id,
        OTHER_TOPIC: params.topic,
        NOWHERE: "–",
        ORIGINAL_TOPIC: Text("original topic"),
    }
    return addresses[params.target]


def summary(
    group: str,
    to_send: int,
    preview: Preview,
    params: ReplayParams,
    takes_s: float | None,
    now_ms: int,
) -> Text:
    """Return the summary of a replay.

    ``Send 312 dead letters of billing again, …, to that group only, at 40 messages per second: 8
    s.``
    """
    if not to_send and preview.complete and not preview.unreadable:
        return _nothing_to_send(group, preview)
    number: int | Text = to_send if preview.complete else Text("at least %(number)s", number=to_send)
    since = None if preview.first_ms is None else _time(preview.first_ms, now_ms)
    if params.target == NOWHERE:
        return _marked(group, number, since)
    where, speed = _where(group, preview, params), _speed(params.rate_per_s, takes_s)
    if since is None:
        return Text(
            "Send %(number)s {dead letter|dead letters} of %(group)s again, %(where)s, %(speed)s.",
            number=number,
            group=group,
            where=where,
            speed=speed,
        )
    return Text(
        "Send %(number)s {dead letter|dead letters} of %(group)s again, dead since %(time)s, "
        "%(where)s, %(speed)s.",
        number=number,
        group=group,
        time=since,
        where=where,
        speed=speed,
    )


def _nothing_to_send(group: str, preview: Preview) -> Text:
    if not preview.already:
        return Text("No dead letter of %(group)s would be sent.", group=group)
    return Text(
        "Nothing would be sent: %(number)s matching dead letter(s) of %(group)s {was|were} replayed before.",
        number=preview.already,
        group=group,
    )


def _marked(group: str, number: int | Text, since: str | None) -> Text:
    if since is None:
        return Text(
            "Mark %(number)s {dead letter|dead letters} of %(group)s as handled. Nothing is sent.",
            number=number,
            group=group,
        )
    return Text(
        "Mark %(number)s {dead letter|dead letters} of %(group)s as handled, dead since "
        "%(time)s. Nothing is sent.",
        number=number,
        group=group,
        time=since,
    )


def _where(group: str, preview: Preview, params: ReplayParams) -> Text:
    if params.target == FAILED_GROUP:
        return Text("to that group only (%(topic)s)", topic=retry_topic(group))
    if params.target == OTHER_TOPIC:
        return Text("to %(names)s", names=params.topic)
    topics = sorted(topic for topic in preview.topics if topic)
    return Text("to %(names)s", names=_names(topics)) if topics else Text("to their original topic")


def _speed(rate: int | None, takes_s: float | None) -> Text:
    """Return how fast the replay is, and how long it takes."""
    if rate is not None:
        speed = Text("at %(rate)s per second", rate=rate)
        return (
            speed if takes_s is None else Text("%(speed)s: %(takes)s", speed=speed, takes=_duration(takes_s))
        )
    speed = Text("as fast as the brokers accept them")
    if takes_s is None:
        return speed
    return Text("%(speed)s: %(takes)s at the speed of the last replay", speed=speed, takes=_duration(takes_s))


def preview_warnings(
    preview: Preview,
    params: ReplayParams,
    others: Sequence[str],
    online: bool | None,
    expiring: int | None,
) -> list[PlanWarning]:
    """Return the banners of the plan page, most important first."""
    found = _receivers(params.target, others) + _letters(preview, params, expiring)
    if params.target == FAILED_GROUP and online is False:
        found.append(
            PlanWarning(
                "info", Text("No client of the group is online"), Text("The copies wait in its retry topic.")
            )
        )
    if params.target == FAILED_GROUP:
        found.append(
            PlanWarning(
                "ok",
                Text("Other groups receive nothing"),
                Text("Copies go to the group's own retry topic, with a fresh count of retries."),
            )
        )
    if params.target == NOWHERE:
        text = Text("A later replay skips them unless it is set to send everything again.")
        found.append(PlanWarning("info", Text("The dead letters stay where they are"), text))
    else:
        text = Text(
            "Every copy carries a key: each dead letter is sent at most once, or reported as unknown."
        )
        found.append(PlanWarning("info", Text("A replay cannot be undone"), text))
    return found


def _letters(preview: Preview, params: ReplayParams, expiring: int | None) -> list[PlanWarning]:
    """Warn of letters that are not sent, or may not be."""
    found = []
    if preview.unreadable:
        found.append(
            PlanWarning(
                "warn",
                Text("%(number)s cannot be read", number=preview.unreadable),
                Text("They are counted as failed."),
            )
        )
    if expiring:
        found.append(
            PlanWarning(
                "warn",
                Text("%(number)s may expire before they are sent", number=expiring),
                Text(
                    "By then they are older than the broker's retention. The broker deletes whole files, "
                    "so most remain a little longer. A higher rate helps."
                ),
            )
        )
    elif expiring is None:
        found.append(
            PlanWarning(
                "info",
                Text("Their expiry is unknown"),
                Text("No broker reported how long it keeps messages."),
            )
        )
    if preview.already:
        found.append(
            PlanWarning(
                "info",
                Text("%(number)s were replayed or handled before", number=preview.already),
                Text("They are skipped.") if params.skip_replayed else Text("They will be sent again."),
            )
        )
    if preview.in_doubt:
        found.append(
            PlanWarning(
                "warn",
                Text("%(number)s may have been sent before", number=preview.in_doubt),
                Text(
                    "Their outcome in an earlier replay is unknown. Check whether they arrived: this "
                    "plan sends them again."
                ),
            )
        )
    if not preview.complete:
        found.append(
            PlanWarning(
                "info",
                Text("Not all dead letters were counted"),
                Text("The rest is counted while the job runs."),
            )
        )
    return found


def _receivers(target: str, others: Sequence[str]) -> list[PlanWarning]:
    """Warn of other groups that receive the copies."""
    if target == OTHER_TOPIC and not others:
        return [
            PlanWarning(
                "info",
                Text("No group reads that topic yet"),
                Text("The copies wait there until they expire."),
            )
        ]
    if not others:
        return []
    if target == OTHER_TOPIC:
        return [
            PlanWarning(
                "warn",
                Text("%(number)s group(s) will receive the copies", number=len(others)),
                Text("They read that topic: %(names)s.", names=_names(others)),
            )
        ]
    return [
        PlanWarning(
            "danger",
            Text("%(number)s other group(s) will receive the copies too", number=len(others)),
            Text(
                "They read the same topic: %(names)s. To avoid this, choose only the failed group as target.",
                names=_names(others),
            ),
        )
    ]


def direct_summary(
    group: str, params: ReplayParams, newest: tuple[MessageQueue, MessageRecord] | None
) -> Text:
    """Return the summary for one client.

    ``Deliver one dead letter of billing (broker-a · 0 @ 17, keys k1) to the client 10.0.0.7@4711, …``
    """
    if newest is None:
        return Text(
            "One dead letter of %(group)s would be delivered to the client %(client)s.",
            group=group,
            client=params.client_id,
        )
    queue, letter = newest
    place = f"{queue.broker_name} · {queue.queue_id} @ {letter.queue_offset:,}"
    return Text(
        "Deliver one dead letter of %(group)s (%(place)s) to the client %(client)s, once, and show its "
        "answer.",
        group=group,
        place=Text("%(place)s, keys %(keys)s", place=place, keys=letter.keys) if letter.keys else place,
        client=params.client_id,
    )


def direct_warnings(is_original: bool, topic: str) -> list[PlanWarning]:
    """Warn that the client really consumes the message, and which topic it sees."""
    found = [
        PlanWarning(
            "warn",
            Text("The client processes it for real"),
            Text("Its listener runs as for any message. No offset is committed and nothing is retried."),
        )
    ]
    if not is_original:
        text = Text(
            "The original message is gone, so the listener receives %(topic)s as the topic's name.",
            topic=topic,
        )
        found.append(PlanWarning("warn", Text("The listener receives the dead-letter topic"), text))
    return found


def client_answer(answer: ClientAnswer) -> Text:
    """Return the sentence ``The client 10.0.0.7@4711 answered CR_SUCCESS in 12 ms``."""
    if not answer.consume_result:
        return Text(
            "The client %(client)s did not answer with a result: %(reason)s",
            client=answer.client_id,
            reason=answer.remark,
        )
    outcome = Text(
        "The client %(client)s answered %(result)s in %(spent)s ms",
        client=answer.client_id,
        result=answer.consume_result,
        spent=answer.spent_ms or 0,
    )
    if answer.remark:
        outcome = Text("%(what)s: %(reason)s", what=outcome, reason=answer.remark)
    return Text("%(sentence)s.", sentence=outcome)


def readable_summary(topic: str, moving: Sequence[str], *, is_undo: bool) -> Text:
    """Return ``Allow reading … on broker-a, broker-b.`` with the name of the topic."""
    names = _names(moving) or Text("no broker")
    if is_undo:
        return Text("Restore the permission of %(topic)s on %(names)s.", topic=topic, names=names)
    return Text(
        "Allow reading %(topic)s on %(names)s. Nothing is sent, no message is touched.",
        topic=topic,
        names=names,
    )


def readable_warnings(*, is_undo: bool) -> list[PlanWarning]:
    """Explain what the permission changes."""
    if is_undo:
        return [
            PlanWarning(
                "info",
                Text("A write-only topic cannot be read"),
                Text("Neither this console nor a consumer can read it."),
            )
        ]
    return [
        PlanWarning(
            "ok",
            Text("Dead letters are written as before"),
            Text(
                "Only the permission to read is added. Brokers up to 4.9.0 create dead-letter topics "
                "without it."
            ),
        )
    ]


def _names(names: Sequence[str]) -> Text:
    if len(names) > NAMES_SHOWN:
        return Text.of_names(names, NAMES_SHOWN)
    return Text.foreign(Names(names))


def _time(at_ms: int, now_ms: int) -> str:
    at, now = (datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.UTC) for ms in (at_ms, now_ms))
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _duration(seconds: float) -> Text:
    if seconds < 1:
        return Text("less than a second")
    if seconds < 120:
        return Text("about %(number)s s", number=round(seconds))
    if seconds < 7200:
        return Text("about %(number)s min", number=round(seconds / 60))
    return Text("about %(number)s h", number=f"{seconds / 3600:.1f}")
