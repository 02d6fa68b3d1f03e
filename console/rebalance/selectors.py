"""Who reads what, as clients reported in the last sweep, and findings about it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from console.access.name_scope import EVERYTHING, NameScope
from console.brokers.mqadmin import RETRY_TOPIC_PREFIX, MessageQueue
from console.lag.models import ClientRow
from console.lag.rows import queues
from console.rebalance import rules
from console.rebalance.rules import ClientView, Finding


def client_views(cluster_name: str, group: str) -> list[ClientView]:
    """Return a group's members with the queues they report."""
    return [
        client_view(row)
        for row in ClientRow.objects.filter(cluster=cluster_name, group=group).order_by("client_id")
    ]


def client_view(row: ClientRow) -> ClientView:
    """Return the member of a row."""
    queues = None
    if row.queues is not None:
        queues = frozenset(
            MessageQueue(one["topic"], one["broker_name"], one["queue_id"]) for one in row.queues
        )
    return ClientView(row.client_id, queues, row.subscription, broadcasts=bool(row.progress))


def findings(cluster_name: str, group: str) -> list[Finding]:
    """Return what is wrong with a group's ownership: queue without owner, two owners, idle client.

    Makes two queries.
    """
    held = _queues_of(cluster_name, [group])[group]
    return rules.findings(group, held, client_views(cluster_name, group))


def cluster_findings(cluster_name: str, scope: NameScope = EVERYTHING) -> list[Finding]:
    """Return the findings of every group in scope with connected clients. Makes two queries."""
    clients: dict[str, list[ClientView]] = defaultdict(list)
    rows_of_clients = scope.filter(ClientRow.objects.filter(cluster=cluster_name), "group")
    for row in rows_of_clients.order_by("group", "client_id"):
        clients[row.group].append(client_view(row))
    held = _queues_of(cluster_name, list(clients))
    return [found for group in clients for found in rules.findings(group, held[group], clients[group])]


def _queues_of(cluster_name: str, groups: Sequence[str]) -> Mapping[str, list[MessageQueue]]:
    """Return the queues of groups, their retry topics left out."""
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for group, topic, broker_name, queue_id in queues.keys_of_groups(cluster_name, groups):
        if not topic.startswith(RETRY_TOPIC_PREFIX):
            found[group].append(MessageQueue(topic, broker_name, queue_id))
    return found
