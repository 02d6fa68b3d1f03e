"""`dlq`: list dead letters, look at some, plan and apply replays."""

import dataclasses
import json
from typing import Any

from django.core.management.base import CommandParser

from console.deadletter import selectors, services
from console.deadletter.replay_copy import TARGETS
from console.operation.command_line import ChangeCommand, add_cluster, cluster_name, time_ms


class Command(ChangeCommand):
    help = "List, sample and replay the dead letters of consumer groups."
    kind = "dead_letter_replay"

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="groups with dead letters")
        sampling = actions.add_parser("sample", help="the newest dead letters of a group, decoded")
        sampling.add_argument("--limit", type=int, default=20)
        replaying = actions.add_parser("replay", help="show what would be sent; sends nothing")
        replaying.add_argument("--target", choices=TARGETS, default=TARGETS[0])
        replaying.add_argument("--rate", type=int, help="messages per second; no limit without it")
        replaying.add_argument("--again", action="store_true", help="also what was replayed before")
        for each in (sampling, replaying):
            each.add_argument("group")
            each.add_argument("--from", dest="from_time", help="ISO 8601 with zone")
            each.add_argument("--to", dest="to_time", help="ISO 8601 with zone, exclusive")
            each.add_argument("--tag", default="")
            each.add_argument("--key", default="")
        for each in (listing, sampling, replaying):
            add_cluster(each)
        self.add_change_actions(actions)

    def _list(self, *, cluster: str, format: str, **_: Any) -> None:
        rows = selectors.dead_letter_page(cluster_name(cluster))
        if format == "json":
            self.stdout.write(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
            return
        for row in rows:
            count = "unknown" if row.count is None else f"{'≥ ' if row.lower_bound else ''}{row.count:,}"
            growth = "" if row.growth_per_h is None else f"{row.growth_per_h:+,.0f}/h"
            self.stdout.write(
                f"{row.group:<40} {count:>12} {growth:>10} {'' if row.readable else 'write-only'}".rstrip()
            )

    def _sample(self, *, group: str, limit: int, cluster: str, format: str, **options: Any) -> None:
        found = services.sample(cluster_name(cluster), group, _filter(options), limit)
        if format == "json":
            self.stdout.write(json.dumps(dataclasses.asdict(found), indent=1, ensure_ascii=False))
            return
        if found.problem:
            self.stdout.write(found.problem)
        for row in found.rows:
            view = row.message
            text = " ".join(view.body_text.split())[:80]
            place = f"{view.broker_name} · {view.queue_id} @ {view.queue_offset}"
            self.stdout.write(f"{place:<30} {row.original_topic:<24} {view.keys:<24} {text}")

    def _replay(
        self,
        *,
        group: str,
        target: str,
        rate: int | None,
        again: bool,
        cluster: str,
        format: str,
        **options: Any,
    ) -> None:
        params = {
            "target": target,
            "rate_per_s": rate,
            "skip_replayed": not again,
            "filter": _filter(options),
        }
        self.make_plan(cluster_name(cluster), group, params, format)


def _filter(options: dict[str, Any]) -> dict[str, Any]:
    given = {
        "from_ms": time_ms(options["from_time"]) if options["from_time"] else None,
        "to_ms": time_ms(options["to_time"]) if options["to_time"] else None,
        "tag": options["tag"],
        "key": options["key"],
    }
    return {name: value for name, value in given.items() if value not in (None, "")}
