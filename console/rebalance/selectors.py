"""What clients of a group reported in the last sweep."""

from console.brokers.mqadmin import MessageQueue
from console.lag.models import ClientRow
from console.rebalance.rules import ClientView


def client_views(cluster_name: str, group: str) -> list[ClientView]:
    """Return a group's members with the queues they report."""
    return [
        _client_view(row)
        for row in ClientRow.objects.filter(cluster=cluster_name, group=group).order_by("client_id")
    ]


def _client_view(row: ClientRow) -> ClientView:
    queues = None
    if row.queues is not None:
        queues = frozenset(
            MessageQueue(one["topic"], one["broker_name"], one["queue_id"]) for one in row.queues
        )
    return ClientView(row.client_id, queues)
