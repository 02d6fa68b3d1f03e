"""The plan kind ``offset_change``: move the committed offsets of one group, seen before, verified after,
undone exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.cluster import selectors as cluster_selectors
from console.group import offset_apply, offset_change, selectors
from console.group.offset_change import Change, Wish
from console.group.offset_state import GroupState, offsets_at_time, read_group_state, store_times
from console.lag import selectors as lag_selectors
from console.mqadmin import BlockingMQAdmin, MessageQueue, with_admin
from console.operation.kinds import Draft
from console.operation.models import Job, Plan
from console.operation.runner import JobRun


class OffsetChangePlan:
    """params: {target, topics?, queues?, time_ms?, offset?, shift?, like_group?, offsets?}; see
    ``offset_change.TARGETS``."""

    kind = "offset_change"
    verb = "RESET"

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Read the group and say what would move. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        wish = offset_change.read_wish(params)
        admin = self._admin(cluster)
        state = read_group_state(admin, subject, wish.topics, now_ms)
        rows = offset_change.changes(state, wish, self._looked_up(admin, cluster, state, wish))
        rows, span = self._with_store_times(admin, state, rows)
        return Draft(
            summary=offset_change.summary(subject, rows, span, now_ms),
            diff=[row.as_row() for row in rows],
            before={
                "online": state.online,
                "clients": sorted(state.clients),
                "server_side_reset": sorted(name for name, able in state.server_side_reset.items() if able),
                "read_at_ms": now_ms,
                "queues": [
                    [row.queue.topic, row.queue.broker_name, row.queue.queue_id, row.before] for row in rows
                ],
            },
            messages=offset_change.replayed(rows) + offset_change.skipped(rows),
            warnings=offset_change.warnings(state, rows),
            blocked=offset_change.blocked(state, wish, rows),
            command="manage.py offsets apply {plan} --confirm {subject}",
        )

    def drift(self, plan: Plan, now_ms: int) -> list[str]:
        """Read the group again and compare with the plan."""
        topics = sorted({row["topic"] for row in plan.diff})
        state = read_group_state(self._admin(plan.cluster), plan.subject, topics, now_ms)
        elapsed_s = max(0.0, (now_ms - plan.before["read_at_ms"]) / 1000)
        seen = selectors.group(plan.cluster, plan.subject)
        out_rate = None if seen is None else seen.out_rate
        return offset_change.drift(plan.diff, plan.before["online"], state, elapsed_s, out_rate)

    def apply(self, run: JobRun) -> None:
        """Record what is there now (for undo), then move every queue by its own request."""
        admin = self._admin(run.plan.cluster)
        if "queues" not in run.result:
            topics = sorted({row["topic"] for row in run.plan.diff})
            state = read_group_state(admin, run.plan.subject, topics, run.now_ms())
            run.result["queues"] = offset_apply.result_rows(run.plan.diff, state)
            run.progress |= {"done": 0, "total": len(run.result["queues"])}
            run.save()
        offset_apply.apply_rows(run, admin, run.plan.subject)
        passed = sum(row["state"] == "passed" for row in run.result["queues"])
        left = f"; {passed} went past their target by themselves and are left alone" if passed else ""
        run.note(f"Applied to {run.progress['done'] - passed} queues{left}")

    def verify(self, run: JobRun) -> None:
        """Watch the brokers until every queue stands at its target and members read on."""
        offset_apply.watch_rows(run, self._admin(run.plan.cluster), run.plan.subject)

    def settle(self, run: JobRun) -> None:
        """Cancelled before all queues were moved: say how many were."""
        rows = run.result.get("queues", [])
        run.result["moved"] = sum(row["state"] in ("applied", "verified") for row in rows)

    def undo_params(self, plan: Plan, job: Job) -> dict[str, Any] | None:
        """The offsets recorded just before each queue was moved; queues never committed before stay."""
        offsets = [
            {
                "topic": row["topic"],
                "broker_name": row["broker_name"],
                "queue_id": row["queue_id"],
                "offset": row["before"],
                # Messages that were to be read again and have been read again are not taken back once more.
                "or_beyond": row["target"] < row["before"],
            }
            for row in job.result.get("queues", [])
            if row["state"] in ("applied", "verified") and row["before"] is not None
        ]
        return {"target": "exact", "offsets": offsets} if offsets else None

    def _admin(self, cluster: str) -> BlockingMQAdmin:
        return with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)

    def _looked_up(
        self, admin: BlockingMQAdmin, cluster: str, state: GroupState, wish: Wish
    ) -> dict[MessageQueue, int | None]:
        """Targets that somebody else knows: the brokers' time index, another group, the history."""
        if wish.target == "time":
            assert wish.time_ms is not None
            places = [
                each.place
                for queue, each in state.queues.items()
                if wish.queues is None or queue in wish.queues
            ]
            return dict(offsets_at_time(admin, places, wish.time_ms))
        if wish.target == "like_group":
            other = read_group_state(
                admin, wish.like_group, sorted({q.topic for q in state.queues}), state.read_at_ms
            )
            return {queue: each.committed for queue, each in other.queues.items()}
        if wish.target == "as_of":
            assert wish.time_ms is not None
            return dict(lag_selectors.committed_offsets_at(cluster, state.group, wish.time_ms))
        return {}

    def _with_store_times(
        self, admin: BlockingMQAdmin, state: GroupState, rows: list[Change]
    ) -> tuple[list[Change], tuple[int, int] | None]:
        """Rows with the store time of the message at their target, and the span of all messages concerned."""
        firsts, lasts = {}, {}
        for row in rows:
            if row.after is None or not row.moves:
                continue
            place = state.queues[row.queue].place
            start = row.after if row.before is None else min(row.after, row.before)
            end = row.max_offset if row.before is None else max(row.after, row.before)
            firsts[row.queue] = (place, max(start, row.min_offset))
            lasts[row.queue] = (place, min(end, row.max_offset) - 1)
        targets = [
            (state.queues[row.queue].place, row.after) for row in rows if row.moves and row.after is not None
        ]
        times = store_times(admin, [*firsts.values(), *lasts.values(), *targets])
        known = [
            times[place.queue, offset]
            for place, offset in (*firsts.values(), *lasts.values())
            if (place.queue, offset) in times
        ]
        span = (min(known), max(known)) if known else None
        return [
            row.at(times.get((row.queue, row.after))) if row.after is not None else row for row in rows
        ], span
