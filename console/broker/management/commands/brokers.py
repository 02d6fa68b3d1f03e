"""`brokers`: list brokers, read and change configuration keys, drain a broker or give it back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.broker import selectors
from console.broker.acl import plans as acl_plans
from console.broker.selectors import BrokerView
from console.operation import services
from console.operation.command_line import (
    ChangeCommand,
    accepting,
    add_accepting,
    add_cluster,
    cluster_name,
)
from console.operation.plan.params import RawParams
from console.text.figures import duration, percent, rate

# Those of access control are planned on pages and over REST only: a secret would stay in the history of a shell.
KINDS = ("broker_config_change", "broker_drain", *(each.kind for each in acl_plans.PLANS))


class Command(ChangeCommand):
    help = "List brokers; plan, apply and undo changes of their configuration, and drains."
    kind = "broker_config_change"
    kinds = KINDS

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        add_cluster(
            actions.add_parser("list", help="list every broker: state, traffic, disk, hours until it is full")
        )
        showing = actions.add_parser(
            "differences", help="list configuration keys that differ between brokers"
        )
        add_cluster(showing)
        config = actions.add_parser("config", help="plan a change of one configuration key; changes nothing")
        config.add_argument("key")
        config.add_argument(
            "--set",
            action="append",
            required=True,
            metavar="BROKER=VALUE",
            help="the new value; may be repeated",
        )
        add_cluster(config)
        add_accepting(config)
        for name, words in (
            ("drain", "plan to stop offering a broker to producers; changes nothing"),
            ("give-back", "plan to offer it to producers again; changes nothing"),
        ):
            draining = actions.add_parser(name, help=words)
            draining.add_argument("broker")
            add_cluster(draining)
        self.add_change_actions(actions)

    def handle(self, *args: Any, **options: Any) -> None:
        options["action"] = options["action"].replace("-", "_")
        super().handle(*args, **options)

    def _list(self, *, cluster: str, format: str, **_: Any) -> None:
        views = selectors.broker_views(cluster_name(cluster))
        if format == "json":
            self.stdout.write(json.dumps([dataclasses.asdict(printed(view)) for view in views], indent=1))
            return
        for view in views:
            self.stdout.write(line_of(view))

    def _differences(self, *, cluster: str, format: str, **_: Any) -> None:
        table = selectors.config_table(cluster_name(cluster), only_differences=True)
        names = [one.broker_name for one in table.brokers]
        if format == "json":
            found = {line.key.name: dict(zip(names, line.values, strict=True)) for line in table.lines}
            self.stdout.write(json.dumps(found, indent=1))
            return
        for line in table.lines:
            values = "  ".join(f"{name}={value}" for name, value in zip(names, line.values, strict=True))
            self.stdout.write(f"{line.key.name:<36} {values}")
        for name, reason in table.unread.items():
            self.stdout.write(f"{name}: unknown. {reason}")

    def _config(self, *, cluster: str, key: str, set: list[str], format: str, **options: Any) -> None:
        values = {}
        for pair in set:
            name, equals, value = pair.partition("=")
            if not name or not equals:
                raise CommandError(f"{pair!r} is not a value of a broker; write BROKER=VALUE.")
            values[name] = value
        subject = next(iter(values)) if len(values) == 1 else "*"
        self._plan(
            "broker_config_change",
            cluster,
            subject,
            {"key": key, "values": values, **accepting(options)},
            format,
        )

    def _drain(self, *, cluster: str, broker: str, format: str, **_: Any) -> None:
        self._plan("broker_drain", cluster, broker, {"direction": "drain"}, format)

    def _give_back(self, *, cluster: str, broker: str, format: str, **_: Any) -> None:
        self._plan("broker_drain", cluster, broker, {"direction": "give_back"}, format)

    def _plan(self, kind: str, cluster: str, subject: str, params: RawParams, format: str) -> None:
        self.print_plan(services.create_plan(kind, cluster_name(cluster), subject, params, None), format)


@dataclasses.dataclass(frozen=True, slots=True)
class PrintedBroker:
    """A broker as JSON; null is unknown."""

    broker_name: str
    addr: str
    version: str
    answered: bool
    unknown_since_ms: int | None
    reason: str
    in_rate: float | None
    out_rate: float | None
    disk_ratio: float | None
    filling: str
    full_in_ms: int | None
    put_p99_ms: float | None
    drained_at: list[str]
    read_at_ms: int


def printed(view: BrokerView) -> PrintedBroker:
    """Return a broker for ``--format json``."""
    return PrintedBroker(
        broker_name=view.name,
        addr=view.row.addr,
        version=view.row.version,
        answered=view.row.answered,
        unknown_since_ms=view.unknown_since_ms,
        reason=view.row.reason,
        in_rate=view.row.in_rate,
        out_rate=view.row.out_rate,
        disk_ratio=view.row.disk_ratio,
        filling=view.filling,
        full_in_ms=view.full_in_ms,
        put_p99_ms=view.put_p99_ms,
        drained_at=list(view.drained_at),
        read_at_ms=view.row.read_at_ms,
    )


def line_of(view: BrokerView) -> str:
    """Return a broker as one line of a terminal."""
    if not view.row.answered:
        return f"{view.name:<20} unknown: {view.row.reason}"
    figures = [
        "drained" if view.is_drained else "ok",
        view.row.version,
        "in ?" if view.row.in_rate is None else f"in {rate(view.row.in_rate)}/s",
        "out ?" if view.row.out_rate is None else f"out {rate(view.row.out_rate)}/s",
        "disk ?" if view.row.disk_ratio is None else f"disk {percent(view.row.disk_ratio)}",
        f"full in {duration(view.full_in_ms)}"
        if view.full_in_ms is not None
        else f"full: {view.filling.lower()}",
    ]
    return f"{view.name:<20} {'  '.join(figures)}"
