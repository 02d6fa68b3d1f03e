"""Routes of name servers as words that can be compared. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from console.brokers.mqadmin import TopicRouteData
from console.text import Text

READ, WRITE = 4, 2
NOT_KNOWN = Text("not known here")
PERMISSION_WORDS = {
    0: Text("no permission"),
    2: Text("write only"),
    4: Text("read only"),
    6: Text("read, write"),
}


def permission_words(perm: int) -> Text:
    """Return RocketMQ's permission bits in words."""
    return PERMISSION_WORDS[perm & (READ | WRITE)]


def route_words(route: TopicRouteData | None) -> Text:
    """Return `broker-a 4/4 read, write at 10.0.0.1:10911; …`: all that clients use, by broker name.

    None is a name server that does not know the topic.
    """
    if route is None:
        return NOT_KNOWN
    addresses = {data.broker_name: dict(data.broker_addrs) for data in route.broker_datas}
    parts = []
    for queues in sorted(route.queue_datas, key=lambda one: one.broker_name):
        where = [
            Text("%(addr)s (slave)", addr=addr) if number else Text.foreign(addr)
            for number, addr in sorted(addresses.get(queues.broker_name, {}).items())
        ]
        parts.append(
            Text(
                "%(queues)s %(permission)s at %(where)s",
                queues=f"{queues.broker_name} {queues.read_queue_nums}/{queues.write_queue_nums}",
                permission=permission_words(queues.perm),
                where=Text.of_list(where) or Text("no address"),
            )
        )
    return Text.of_parts(parts) or Text("no queues")


def writable_queues(route: TopicRouteData, *, without: str = "") -> int:
    """Return how many queues producers are offered, without those of one broker."""
    masters = {data.broker_name for data in route.broker_datas if 0 in data.broker_addrs}
    return sum(
        queues.write_queue_nums
        for queues in route.queue_datas
        if queues.perm & WRITE and queues.broker_name != without and queues.broker_name in masters
    )


def offers(route: TopicRouteData, broker_name: str) -> bool | None:
    """Whether producers are offered this broker for the topic; None where the route does not contain it."""
    own = [queues for queues in route.queue_datas if queues.broker_name == broker_name]
    return bool(own[0].perm & WRITE and own[0].write_queue_nums) if own else None


def differing(views: Mapping[str, Mapping[str, Text]]) -> dict[str, dict[str, Text]]:
    """Return the topics of {topic: {name server: words}} whose words differ between name servers."""
    return {topic: dict(by_server) for topic, by_server in views.items() if len(set(by_server.values())) > 1}
