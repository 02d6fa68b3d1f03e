"""`groups`: list groups; plan, apply and undo changes of them."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandParser

from console.group import selectors
from console.group.group_list import GROUPS
from console.group.mode.facts import MODES
from console.group.mode.plans import ModeParams
from console.group.pause.plans import ReadingParams
from console.group.settings.config import FIELDS, MEANING, GroupParams
from console.lists.query import ListQuery
from console.operation.command_line import cluster_name
from console.operation.config.command import ConfigCommand
from console.operation.config.row import GROUP
from console.text.figures import duration


def _places(*, topics: list[str] | None, brokers: list[str] | None, **_: Any) -> ReadingParams:
    return ReadingParams(topics=tuple(topics or ()), brokers=tuple(brokers or ()))


class Command(ConfigCommand):
    also = ("pause", "resume", "mode")
    help = "List consumer groups; plan, apply and undo changes of their settings."
    what = GROUP
    params_type = GroupParams
    quarantine_words = "its members may not consume; its offsets stay"
    delete_options: ClassVar[Mapping[str, str]] = {
        "with_topics": "its retry and dead-letter topics too",
        "keep_offsets": "its committed offsets stay",
    }

    def add_listing(self, listing: CommandParser) -> None:
        listing.add_argument("--query", default="", help="part of the name")
        listing.add_argument("--status", default="", help="a status such as STALLED or PARTIAL")
        for each in GROUPS.filters:
            listing.add_argument(f"--{each.name.replace('_', '-')}", choices=each.values, default="")
        listing.add_argument("--sort", choices=GROUPS.sorts, default="attention")
        listing.add_argument("--ascending", action="store_true")
        listing.add_argument("--limit", type=int, default=200)

    def add_settings(self, planning: CommandParser) -> None:
        for name, (_, lowest, _) in FIELDS.items():
            planning.add_argument(
                f"--{name.replace('_', '-')}",
                help=MEANING[name].replace("%", "%%"),
                type=str if lowest is None else int,
                choices=("true", "false") if lowest is None else None,
            )

    def add_plan_actions(self, actions: Any) -> None:
        for step, words in (
            ("pause", "plan that its members are given nothing of some topics"),
            ("resume", "plan that they are given it again"),
        ):
            planning = self.add_action(actions, step, words)
            planning.add_argument(
                "--topic", dest="topics", action="append", help="may be repeated (default: all)"
            )
            planning.add_argument(
                "--broker", dest="brokers", action="append", help="may be repeated (default: all)"
            )

        moding = self.add_action(actions, "mode", "plan whether members pull a topic or pop it")
        moding.add_argument("--topic", required=True)
        moding.add_argument("--mode", required=True, choices=MODES)
        moding.add_argument(
            "--pop-share-queues",
            type=int,
            help="POP: how many further members share a queue; 0: all",
        )
        moding.add_argument(
            "--broker", dest="brokers", action="append", help="may be repeated (default: all)"
        )

    def _mode(self, **options: Any) -> None:
        params = ModeParams(
            topic=options["topic"],
            mode=options["mode"],
            pop_share_queues=options["pop_share_queues"] or 0,
            brokers=tuple(options["brokers"] or ()),
        )
        self.plan("mode", params, **options)

    def _pause(self, **options: Any) -> None:
        self.plan("pause", _places(**options), **options)

    def _resume(self, **options: Any) -> None:
        self.plan("resume", _places(**options), **options)

    def settings(self, **options: Any) -> GroupParams:
        given = {name: options[name] for name in FIELDS if options[name] is not None}
        return GroupParams(
            **{name: value == "true" if FIELDS[name][1] is None else value for name, value in given.items()}
        )

    def _list(
        self, *, query: str, sort: str, ascending: bool, limit: int, cluster: str, format: str, **options: Any
    ) -> None:
        page = selectors.group_page(
            cluster_name(cluster),
            ListQuery(
                query=query,
                filters={each.name: options[each.name] for each in GROUPS.filters if options[each.name]},
                sort=sort,
                descending=not ascending,
                per_page=limit,
            ),
            status=options["status"] or None,
        )
        if format == "json":
            self.stdout.write(json.dumps([row.as_row() for row in page.rows], indent=1))
            return
        for row in page.rows:
            lag = "unknown" if row.lag is None else f"{'≥ ' if row.lag_lower_bound else ''}{row.lag:,}"
            clients = "unknown" if row.clients is None else str(row.clients)
            bound = "≥ " if row.time_lag_lower_bound else ""
            time_lag = "unknown" if row.time_lag_ms is None else f"{bound}{duration(row.time_lag_ms)}"
            self.stdout.write(f"{row.group:<50} {row.status:<16} {clients:>8} {lag:>14} {time_lag:>14}")
        self.stdout.write(f"{len(page.rows)} of {page.total} groups")
