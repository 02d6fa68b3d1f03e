"""`topics`: list topics; plan, apply and undo changes of them."""

import json
from typing import Any

from django.core.management.base import CommandParser

from console.lists.query import ListQuery
from console.operation.command_line import cluster_name
from console.operation.config.command import ConfigCommand
from console.operation.config.row import TOPIC
from console.topic import selectors
from console.topic.topic_config import MESSAGE_TYPES, PERMISSIONS, TopicParams, permission_letters
from console.topic.topic_list import TOPICS


class Command(ConfigCommand):
    help = "List topics; plan, apply and undo changes of them."
    what = TOPIC
    params_type = TopicParams
    quarantine_words = "no client may use it; its messages stay"

    def add_listing(self, listing: CommandParser) -> None:
        listing.add_argument("--query", default="", help="part of the name")
        listing.add_argument(
            "--kind", action="append", choices=selectors.KINDS, help="may be repeated (default: NORMAL)"
        )
        listing.add_argument("--sort", choices=TOPICS.sorts, default="topic")
        listing.add_argument("--descending", action="store_true")
        listing.add_argument("--limit", type=int, default=200)

    def add_settings(self, planning: CommandParser) -> None:
        planning.add_argument("--write-queues", type=int, help="write queues per broker")
        planning.add_argument("--read-queues", type=int, help="read queues per broker")
        planning.add_argument("--perm", type=int, choices=tuple(PERMISSIONS))
        planning.add_argument("--message-type", choices=MESSAGE_TYPES)
        planning.add_argument("--order", choices=("true", "false"))

    def settings(self, **options: Any) -> TopicParams:
        order = options["order"]
        return TopicParams(
            write_queues=options["write_queues"],
            read_queues=options["read_queues"],
            perm=options["perm"],
            order=None if order is None else order == "true",
            message_type=options["message_type"],
        )

    def _list(
        self,
        *,
        query: str,
        kind: list[str] | None,
        sort: str,
        descending: bool,
        limit: int,
        cluster: str,
        format: str,
        **_: Any,
    ) -> None:
        page = selectors.topic_page(
            cluster_name(cluster),
            ListQuery(query=query, sort=sort, descending=descending, per_page=limit),
            kinds=kind or ("NORMAL",),
        )
        if format == "json":
            self.stdout.write(json.dumps([row.as_row() for row in page.rows], indent=1))
            return
        for row in page.rows:
            queues = f"{row.read_queues}/{row.write_queues}"
            in_rate = "unknown" if row.in_rate is None else f"{row.in_rate:,.1f}/s"
            self.stdout.write(
                f"{row.topic:<50} {queues:>9} {permission_letters(row.perm):>5} {in_rate:>14}  {', '.join(row.brokers)}"
            )
        self.stdout.write(
            f"{len(page.rows)} of {page.total} topics; {page.hidden_system} of other kinds are hidden"
        )
