"""The plan kind ``dead_letter_replay``: send the dead letters of a group again, counted before, accounted
for after."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from console.cluster import selectors as cluster_selectors
from console.deadletter import replay_copy, selectors
from console.deadletter.dead_letters import (
    Filter,
    places,
    read_filter,
    read_window,
    topic_of,
)
from console.deadletter.models import LedgerState, ReplayLedger
from console.deadletter.preview import Preview
from console.deadletter.replay import WINDOW, Replay, route_queues_of
from console.deadletter.replay_words import preview_warnings, summary
from console.mqadmin import BlockingMQAdmin, retry_topic, validate_group, with_admin
from console.operation.broker_queues import BrokerQueue, ask_each, masters
from console.operation.errors import PlanRejected, VerificationFailed
from console.operation.kinds import Draft
from console.operation.models import Job, Plan
from console.operation.rules import RATE_PER_S_MAX
from console.operation.runner import JobRun

PREVIEW_MAX = 100_000  # letters counted for the preview; more is counted while replaying
PREVIEW_MS = 15_000
ORDERLY = "ORDERLY"
SPOT_CHECKS = 20  # sent copies that verify reads back


class ReplayPlan:
    """params: {target, filter?, rate_per_s?, skip_replayed?}; the subject is the group whose dead letters
    are sent."""

    kind = "dead_letter_replay"
    verb = "REPLAY"

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Look through the dead letters and count. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        checked = self._checked(subject, params)
        wanted = read_filter(checked["filter"])
        admin = self._admin(cluster)
        topic = topic_of(subject)
        found = places(admin, topic)
        preview = self._preview(admin, cluster, found.queues, wanted)
        to_send = preview.matched - (preview.already if checked["skip_replayed"] else 0)
        target_problem = (
            "" if found.problem else self._target_problem(admin, cluster, subject, checked, preview)
        )
        empty = (
            "" if to_send or preview.unreadable or not preview.complete else "No dead letter is left to send."
        )
        return Draft(
            summary=summary(subject, to_send, preview, checked, now_ms),
            diff=preview.rows,
            before={
                "topic": topic,
                "ranges": [
                    {key: row[key] for key in ("broker_name", "queue_id", "from_offset", "to_offset")}
                    for row in preview.rows
                ],
                "matched": preview.matched + preview.unreadable if preview.complete else None,
                "already": preview.already,
                "unreadable": preview.unreadable,
                "topics": preview.topics,
            },
            messages=to_send,
            warnings=preview_warnings(
                preview, checked, self._others(admin, subject, preview, checked), self._online(admin, subject)
            ),
            params=checked,
            blocked=found.problem or target_problem or empty,
            command="manage.py dlq apply {plan} --confirm {subject}",
            rate_per_s=checked["rate_per_s"],
        )

    def drift(self, plan: Plan, now_ms: int) -> list[str]:
        """Letters that expired, or a topic that was made anew, since the preview. New letters are no drift:
        they stay out."""
        found = places(self._admin(plan.cluster), plan.before["topic"])
        if found.problem:
            return [found.problem]
        now = {(place.queue.broker_name, place.queue.queue_id): place for place in found.queues}
        changes = []
        for each in plan.before["ranges"]:
            name = f"{each['broker_name']} · {each['queue_id']}"
            place = now.get((each["broker_name"], each["queue_id"]))
            if place is None:
                changes.append(f"queue {name} is gone")
            elif place.max_offset < each["to_offset"]:
                changes.append(f"queue {name} ends at {place.max_offset:,} instead of {each['to_offset']:,}")
            elif place.min_offset > each["from_offset"] and each["to_offset"] > each["from_offset"]:
                gone = min(place.min_offset, each["to_offset"]) - each["from_offset"]
                changes.append(f"{gone:,} letters of queue {name} have expired")
        return changes

    def apply(self, run: JobRun) -> None:
        """Send what the ledger says is left."""
        Replay(run, self._admin(run.plan.cluster)).execute()
        figures = run.progress
        run.note(
            f"{figures['matched']:,} matched = {figures['sent']:,} sent + {figures['skipped']:,} skipped "
            f"+ {figures['failed']:,} failed"
        )

    def verify(self, run: JobRun) -> None:
        """The sum holds, nothing is open, and copies read back carry their keys where the broker said."""
        counts = selectors.ledger_counts(run.plan.id)
        if counts[LedgerState.PENDING]:
            raise VerificationFailed(f"{counts[LedgerState.PENDING]} sends have no outcome")
        sent = ReplayLedger.objects.filter(plan=run.plan, state=LedgerState.SENT).order_by("id")
        step = max(1, counts[LedgerState.SENT] // SPOT_CHECKS)
        admin = self._admin(run.plan.cluster)
        addrs = masters(admin)
        checked = 0
        for row in list(sent[::step])[:SPOT_CHECKS]:
            run.beat()
            assert row.target_queue_id is not None and row.target_offset is not None
            addr = addrs.get(row.target_broker_name)
            if addr is None:
                continue
            result = admin.pull(addr, row.target_topic, row.target_queue_id, row.target_offset, 1)
            record = next((each for each in result.messages if each.queue_offset == row.target_offset), None)
            if record is None:
                continue  # expired in the meantime, or its topic can only be written
            if record.properties.get(replay_copy.REPLAY_KEY) != row.replay_key:
                raise VerificationFailed(
                    f"{row.target_topic} · {row.target_broker_name} · {row.target_queue_id} @ "
                    f"{row.target_offset} "
                    f"is not the copy of letter {row.queue_offset}"
                )
            checked += 1
        run.result["read_back"] = checked

    def settle(self, run: JobRun) -> None:
        """Cancelled: decide what is open, count what was done."""
        Replay(run, self._admin(run.plan.cluster)).settle()

    def undo_params(self, plan: Plan, job: Job) -> dict[str, Any] | None:
        """A message that was sent can not be called back."""
        return None

    # --- Inside ---------------------------------------------------------------------------------------------

    def _admin(self, cluster: str) -> BlockingMQAdmin:
        return with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)

    def _checked(self, subject: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters with every default written out; raises PlanRejected."""
        try:
            validate_group(subject)
        except ValueError as error:
            raise PlanRejected(str(error), field="group") from error
        if params.get("group", subject) != subject:
            raise PlanRejected("The plan's subject and its group differ.", field="group")
        target = params.get("target")
        if target not in replay_copy.TARGETS:
            raise PlanRejected(f"Choose a target: {', '.join(replay_copy.TARGETS)}.", field="target")
        rate = params.get("rate_per_s")
        if rate is not None and (
            isinstance(rate, bool) or not isinstance(rate, int) or not 1 <= rate <= RATE_PER_S_MAX
        ):
            raise PlanRejected(
                f"The rate is 1 to {RATE_PER_S_MAX:,} messages per second.", field="rate_per_s"
            )
        wanted = params.get("filter") or {}
        if not isinstance(wanted, Mapping):
            raise PlanRejected("The filter is {from_ms, to_ms, tag, key}.", field="filter")
        read_filter(wanted)
        return {
            "group": subject,
            "target": target,
            "filter": {key: value for key, value in wanted.items() if value not in (None, "")},
            "rate_per_s": rate,
            "skip_replayed": bool(params.get("skip_replayed", True)),
        }

    def _preview(
        self, admin: BlockingMQAdmin, cluster: str, queues: list[BrokerQueue], wanted: Filter
    ) -> Preview:
        preview = Preview(rows=[])
        deadline, looked_at = time.monotonic() + PREVIEW_MS / 1000, 0
        for place in queues:
            row: dict[str, Any] = {
                "topic": place.queue.topic,
                "broker_name": place.queue.broker_name,
                "queue_id": place.queue.queue_id,
                "from_offset": place.min_offset,
                "to_offset": place.max_offset,
                "letters": place.max_offset - place.min_offset,
                "matched": 0,
                "already": 0,
                "unreadable": 0,
            }
            preview.rows.append(row)
            for low in range(place.min_offset, place.max_offset, WINDOW):
                if looked_at >= PREVIEW_MAX or time.monotonic() > deadline:
                    preview.complete = False
                    break
                high = min(low + WINDOW, place.max_offset)
                ids = preview.take(read_window(admin, place, low, high), wanted, row)
                already = len(selectors.sent_before(cluster, place.queue, ids))
                row["already"] += already
                preview.already += already
                looked_at += high - low
        return preview

    def _target_problem(
        self,
        admin: BlockingMQAdmin,
        cluster: str,
        group: str,
        checked: Mapping[str, Any],
        preview: Preview,
    ) -> str:
        """Why nothing can be sent; "" when it can."""
        if checked["target"] == replay_copy.FAILED_GROUP:
            if not route_queues_of(admin, retry_topic(group), write=True):
                return f"There is no topic {retry_topic(group)}: no member of the group was ever online."
            seen = selectors.group_row(cluster, group)
            if seen is not None and seen.consume_mode == ORDERLY and seen.clients:
                return (
                    "The group consumes orderly: while its members hold queue locks, 5.x brokers move what "
                    "is sent to its "
                    "retry topic straight back to the dead letters. Choose the original topic, or stop the "
                    "members."
                )
            return ""
        missing = sorted(
            topic for topic in preview.topics if topic and not route_queues_of(admin, topic, write=True)
        )
        if missing and len(missing) == len([topic for topic in preview.topics if topic]):
            return f"No original topic can be written any more: {', '.join(missing[:3])}."
        return ""

    def _others(
        self, admin: BlockingMQAdmin, group: str, preview: Preview, checked: Mapping[str, Any]
    ) -> list[str]:
        """Groups that also receive what is sent to an original topic (300)."""
        if checked["target"] != replay_copy.ORIGINAL_TOPIC:
            return []
        addrs = masters(admin)
        answers = ask_each(
            admin,
            {(addr, topic): (addr, topic) for addr in addrs.values() for topic in preview.topics if topic},
            lambda client, arguments: client.topic_consumed_by(*arguments),
        )
        return sorted(
            {other for found in answers.values() if not isinstance(found, Exception) for other in found}
            - {group}
        )

    def _online(self, admin: BlockingMQAdmin, group: str) -> bool | None:
        """Whether any member of the group is online; None when no broker could say."""
        answers = ask_each(
            admin, masters(admin), lambda client, addr: client.consumer_connection(addr, group)
        )
        known = [answer for answer in answers.values() if not isinstance(answer, Exception)]
        return any(answer is not None for answer in known) if known else None
