"""`dlq`: list, sample and export dead letters, plan and apply replays."""

import dataclasses
import json
import time
from typing import Any

from django.core.management.base import CommandParser

from console.deadletter import exports, selectors, services
from console.deadletter.dead_letters import TEXT_FILTERS, Filter
from console.deadletter.replay.copy import TARGETS
from console.deadletter.replay.params import ReplayParams
from console.operation import services as services_of_plans
from console.operation.command_line import (
    ChangeCommand,
    accepting,
    add_accepting,
    add_cluster,
    cluster_name,
    time_ms,
)
from console.text.stored import as_json


class Command(ChangeCommand):
    help = "List, sample and replay the dead letters of consumer groups."
    kind = "dead_letter_replay"
    kinds = ("dead_letter_replay", "dlq_readable")

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="list groups with dead letters")
        sampling = actions.add_parser("sample", help="print the newest dead letters of a group, decoded")
        sampling.add_argument("--limit", type=int, default=20)
        replaying = actions.add_parser("replay", help="plan a replay: show what would be sent; sends nothing")
        replaying.add_argument("--target", choices=TARGETS, default=TARGETS[0])
        replaying.add_argument("--rate", type=int, help="messages per second (default: no limit)")
        replaying.add_argument("--again", action="store_true", help="also send what was replayed before")
        replaying.add_argument("--topic", help="the topic, for --target other_topic")
        replaying.add_argument(
            "--client", dest="client_id", help="the client id, for --target client, which takes one message"
        )
        replaying.add_argument("--stop-after", type=int, help="stop after this many failures")
        replaying.add_argument(
            "--stop-if-grows", type=int, help="stop when the group has this many new dead letters"
        )
        exporting = actions.add_parser("export", help="write all dead letters that match to standard output")
        exporting.add_argument("--as", dest="kind", choices=list(exports.CONTENT_TYPES), default="ndjson")
        allowing = actions.add_parser(
            "readable", help="plan to make a write-only dead-letter topic readable; changes nothing"
        )
        allowing.add_argument("group")
        add_accepting(replaying)
        add_accepting(allowing)
        for each in (sampling, replaying, exporting):
            each.add_argument("group")
            each.add_argument("--from", dest="from_time", help="from this time, ISO 8601 with zone")
            each.add_argument("--to", dest="to_time", help="before this time, ISO 8601 with zone")
            each.add_argument("--property", default="", help="a property: name or name=value")
            for name in ("tag", "key", "body", "cause"):
                each.add_argument(f"--{name}", default="")
        for each in (listing, sampling, replaying, exporting, allowing):
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
            cause = (row.causes[0].cause if row.causes else "") if row.readable else "write-only"
            left_h = None if row.expires_ms is None else (row.expires_ms - time.time() * 1_000) / 3_600_000
            expires = "" if left_h is None else f"{left_h:,.1f} h" if left_h > 0 else "any time"
            self.stdout.write(f"{row.group:<40} {count:>12} {growth:>10} {expires:>10} {cause}".rstrip())

    def _sample(self, *, group: str, limit: int, cluster: str, format: str, **options: Any) -> None:
        found = services.sample(cluster_name(cluster), group, _filter(**options), limit)
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

    def _replay(self, *, group: str, target: str, cluster: str, format: str, **options: Any) -> None:
        params = ReplayParams(
            target=target,
            filter=_filter(**options),
            rate_per_s=options["rate"],
            skip_replayed=not options["again"],
            stop_after_failures=options["stop_after"],
            stop_if_dlq_grows_by=options["stop_if_grows"],
            topic=options["topic"] or "",
            client_id=options["client_id"] or "",
            accept_without=tuple(options["accept_without"] or ()),
        )
        self.make_plan(cluster_name(cluster), group, as_json(params), format)

    def _export(self, *, group: str, kind: str, cluster: str, **options: Any) -> None:
        found = exports.letters(cluster_name(cluster), group, _filter(**options))
        for line in exports.letter_lines(found, kind):
            self.stdout.write(line, ending="")

    def _readable(self, *, group: str, cluster: str, format: str, **options: Any) -> None:
        name, params = cluster_name(cluster), accepting(options)
        self.print_plan(services_of_plans.create_plan("dlq_readable", name, group, params, None), format)


def _filter(*, from_time: str | None, to_time: str | None, **options: Any) -> Filter:
    return Filter(
        from_ms=time_ms(from_time) if from_time else None,
        to_ms=time_ms(to_time) if to_time else None,
        **{name: options[name] for name in TEXT_FILTERS},
    )
