"""How far members of a broadcasting group were: each queue of each report that was kept."""

from __future__ import annotations

from collections.abc import Sequence

from django import forms
from msgspec import Struct

from console.lag.history import client_positions
from console.lists.spec import MSGS, Column, ListSpec
from console.text import Text
from console.text.moment_field import MomentField
from spark.lag.local_time import DAY_MS

SPAN_MS = DAY_MS  # without times
REPORTS_MAX = client_positions.ROWS_MAX


class ClientOffset(Struct, frozen=True, kw_only=True):
    """One queue as a member reported it at ``at_ms``; ``lag`` None: its offset lies beyond the end."""

    at_ms: int
    client_id: str
    topic: str
    broker_name: str
    queue_id: int
    committed_offset: int
    min_offset: int
    max_offset: int

    @property
    def lag(self) -> int | None:
        waiting = self.max_offset - max(self.committed_offset, self.min_offset)
        return waiting if waiting >= 0 else None


CLIENT_OFFSETS = ListSpec(
    name="client-offsets",
    key="at_ms",
    default="-at",
    columns=(
        Column("at", Text("Reported"), css="", order=lambda row: row.at_ms, fields=("at_ms",)),
        Column(
            "client",
            Text("Client"),
            css="",
            order=lambda row: row.client_id,
            ascending=True,
            fields=("client_id",),
        ),
        Column(
            "queue",
            Text("Queue"),
            css="",
            order=lambda row: (row.topic, row.broker_name, row.queue_id),
            ascending=True,
            fields=("topic", "broker_name", "queue_id"),
        ),
        Column("committed", Text("Offset"), fields=("committed_offset",)),
        Column("min", Text("Min"), css="num p3", fields=("min_offset",)),
        Column("max", Text("Max"), css="num hide-s", fields=("max_offset",)),
        Column("lag", Text("Lag"), MSGS, order=lambda row: row.lag, fields=("lag",)),
    ),
    searched=("client_id", "topic", "broker_name"),
)


class ClientOffsetsForm(forms.Form):
    """`?client=…&since=…&until=…`; the last day without times."""

    client = forms.CharField(required=False, max_length=255)
    since = MomentField(required=False)
    until = MomentField(required=False)

    def clean(self) -> None:
        super().clean()
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        if since is not None and until is not None and since >= until:
            self.add_error("until", Text("The end must lie after the start."))


def kept_offsets(
    cluster: str, group: str, from_ms: int, to_ms: int, client_id: str = ""
) -> Sequence[ClientOffset]:
    """Return the queues of the newest REPORTS_MAX reports of [from_ms, to_ms), newest first."""
    return [
        ClientOffset(
            at_ms=position.at_ms,
            client_id=position.client_id,
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            committed_offset=queue.committed_offset,
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
        )
        for position in client_positions.between(cluster, group, from_ms, to_ms, client_id)
        for queue in client_positions.queues_of(position)
    ]
