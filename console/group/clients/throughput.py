"""What each member of a group takes and confirms, by the queues it owns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from console.brokers.mqadmin import is_retry_topic
from console.lag.models import ClientRow
from console.lag.rows.popped import held_queues, popped_count
from console.lag.rows.queue_row import QueueRow
from console.text import Text

NEVER_COMMITTED, UNKNOWN = "NEVER_COMMITTED", "UNKNOWN"
NOT_REPORTED = Text("the client did not report its queues")
NO_OWNER = Text("the last round did not have this client as the owner of a queue yet")
POPS = Text("it pops, and brokers do not count by client what is acknowledged")
NO_RATE_YET = Text("a rate needs two rounds that read the queue")
NO_PULLED_YET = Text(
    "pulled offsets are read in every round while a page of the group is open; the last round did not read them"
)


@dataclass(frozen=True, slots=True)
class Throughput:
    """Messages a second confirmed, and messages pulled and not confirmed. None is unknown, `reason` why.

    `partial`, `lag_lower_bound`: the rate, and what is in flight, of some of its queues is unknown. `status` is
    NEVER_COMMITTED where the figures do not apply: it owns no queue that the group has committed on.
    """

    out_rate: float | None = None
    in_flight: int | None = None
    partial: bool = False
    lag_lower_bound: bool = False
    reason: Text = Text()
    unknown_since_ms: int | None = None
    status: str = ""

    @property
    def applies(self) -> bool:
        return self.status != NEVER_COMMITTED


def throughput_of(client: ClientRow, queues: Iterable[QueueRow]) -> Throughput:
    """Return the figures of a member over the queues of its group that it owns, without the retry topic."""
    if client.queues is None:
        return Throughput(reason=client.reason or NOT_REPORTED, unknown_since_ms=client.read_at_ms or None)
    held = held_queues(client.queues) or []
    if any(one.popped is not None for one in held):
        # The offset of a popped queue belongs to the group, not to the member.
        return Throughput(in_flight=popped_count(held), reason=POPS)
    owned = [row for row in queues if row.owner == client.client_id and not is_retry_topic(row.topic)]
    if not owned and any(not is_retry_topic(one.topic) for one in held):
        return Throughput(reason=NO_OWNER)
    own = [row for row in owned if row.status != NEVER_COMMITTED]
    if not own:
        return Throughput(status=NEVER_COMMITTED)
    rates = [row.out_rate for row in own if row.out_rate is not None]
    in_flight = [row.in_flight for row in own if row.in_flight is not None]
    return Throughput(
        out_rate=sum(rates) if rates else None,
        in_flight=sum(in_flight) if in_flight else None,
        partial=0 < len(rates) < len(own),
        lag_lower_bound=0 < len(in_flight) < len(own),
        reason=_reason(own),
        unknown_since_ms=min((row.since_ms for row in own if row.status == UNKNOWN), default=None),
    )


def _reason(own: Sequence[QueueRow]) -> Text:
    """Return why figures of some queues are missing."""
    reasons = [row.reason for row in own if row.status == UNKNOWN and row.reason]
    if not reasons:
        reasons = [
            *(NO_RATE_YET for row in own if row.out_rate is None),
            *(NO_PULLED_YET for row in own if row.in_flight is None),
        ]
    return Text.of_list(list(dict.fromkeys(reasons)))
