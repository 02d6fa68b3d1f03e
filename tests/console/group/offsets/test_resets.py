"""Resets since a plan was made, by any person: of this console's jobs, and jumps that rounds recorded."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.change import Change
from console.group.offsets.resets import resets_since
from console.lag.collect import reset
from console.lag.models import LagEvent, OffsetMove
from console.operation.models import Plan

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

MADE_MS = 1_760_000_000_000
NOW_MS = MADE_MS + 300_000
STOOD = 1_000_000


class Reset(NamedTuple):
    """A reset of one queue, relative to when the plan was made."""

    group: str
    queue_id: int
    after_ms: int
    to_offset: int
    is_own: bool

    @property
    def concerns(self) -> bool:
        """Whether the plan of queues 0 and 1 of billing was made for another state."""
        return self.group == "billing" and self.queue_id < 2 and self.after_ms > 0

    def take_place(self) -> None:
        at_ms = MADE_MS + self.after_ms
        if self.is_own:
            moved = ("orders", "broker-a", self.queue_id, STOOD, self.to_offset)
            reset.note_moves("test", self.group, [moved], now_ms=at_ms)
            return
        LagEvent.objects.create(
            cluster="test",
            kind=LagEvent.Kind.REWIND if self.to_offset < STOOD else LagEvent.Kind.SKIPPED,
            group=self.group,
            topic="orders",
            broker_name="broker-a",
            queue_id=self.queue_id,
            at_ms=at_ms,
            from_offset=STOOD,
            to_offset=self.to_offset,
            messages=abs(self.to_offset - STOOD),
        )


OFFSETS = st.integers(0, 2 * STOOD).filter(lambda offset: offset != STOOD)
TIMES = st.integers(-200_000, 299_000)
RESETS = st.builds(
    Reset, st.sampled_from(["billing", "ledger"]), st.integers(0, 3), TIMES, OFFSETS, st.booleans()
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(RESETS, max_size=4))
def test_any_known_reset_of_a_queue_of_the_plan_is_a_reason(happened: list[Reset]) -> None:
    """Forth, back, however small, by a job of this console or by another tool; those of other queues are none."""
    plan = Plan(cluster="test", subject="billing", before={"read_at_ms": MADE_MS})
    rows = [
        Change(MessageQueue("orders", "broker-a", number), STOOD, 0, 0, 2 * STOOD, "222_queue")
        for number in (0, 1)
    ]
    with transaction.atomic():
        OffsetMove.objects.all().delete()
        LagEvent.objects.all().delete()
        for each in happened:
            each.take_place()
        reasons = resets_since(plan, rows, NOW_MS)
        transaction.set_rollback(True)
    own = [each for each in happened if each.concerns and each.is_own]
    seen = [each for each in happened if each.concerns and not each.is_own]
    # A job of ours explains the jump that a round recorded of it: it is named once.
    assert len(reasons) == (1 if own else len(seen))
    if own:
        last_ms = max(each.after_ms for each in own)
        queues = len({each.queue_id for each in own})
        assert reasons[0].startswith(f"{queues} queue")
        assert f"{(MADE_MS + last_ms) // 1000 % 60:02}" in reasons[0]
