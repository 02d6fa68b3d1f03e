"""`rebalance`: plan, apply and undo which clients of a group get which queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.operation.command_line import ChangeCommand, add_cluster, cluster_name
from console.rebalance.placement.params import PlacementParams
from console.text.stored import as_json


class Command(ChangeCommand):
    kind = "group_placement"
    help = "Pin queues to clients, drain clients, weigh them; plan, apply and undo it."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        placing = actions.add_parser("place", help="plan the whole placement of a topic; changes nothing")
        placing.add_argument("group")
        placing.add_argument("--topic", required=True)
        placing.add_argument(
            "--pin", action="append", metavar="QUEUE=CLIENT", help="as broker-a/3=10.0.0.5@blue"
        )
        placing.add_argument("--drain", action="append", metavar="CLIENT", help="may be repeated")
        placing.add_argument("--weight", action="append", metavar="CLIENT=NUMBER", help="may be repeated")
        placing.add_argument("--canary-version", default="", help="release of clients, as 5.3.3")
        placing.add_argument("--canary-share", type=int, help="their percentage of the queues")
        add_cluster(placing)
        self.add_change_actions(actions)

    def _place(self, *, group: str, cluster: str, format: str, **options: Any) -> None:
        weights = {}
        for word in options["weight"] or ():
            client, _, weight = word.rpartition("=")
            weights[client] = weight
        params = PlacementParams(
            topic=options["topic"],
            pins=_pairs(options["pin"] or ()),
            drained=tuple(options["drain"] or ()),
            weights=weights,
            canary_version=options["canary_version"],
            canary_share=options["canary_share"] or 0,
        )
        self.make_plan(cluster_name(cluster), group, as_json(params), format)


def _pairs(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        queue, is_pair, client = word.partition("=")
        if not is_pair:
            raise CommandError(f"{word} is not QUEUE=CLIENT, as broker-a/3=10.0.0.5@blue.")
        found[queue] = client
    return found
