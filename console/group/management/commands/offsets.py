"""`offsets`: plan, apply, undo and restore the committed offsets of a group."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.operation.command_line import (
    ChangeCommand,
    accepting,
    add_accepting,
    add_cluster,
    cluster_name,
    time_ms,
)

TARGETS = ("earliest", "latest", "time", "offset", "shift", "like_group", "as_of", "undo", "exact")


class Command(ChangeCommand):
    help = "Plan, apply, undo and restore offset changes of a consumer group."
    kind = "offset_change"

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        planning = actions.add_parser("plan", help="show what would change; changes nothing")
        planning.add_argument("group")
        planning.add_argument("--target", required=True, choices=TARGETS)
        _add_scope(planning)
        planning.add_argument("--time", help="ISO 8601 with zone, for the targets time and as_of")
        planning.add_argument("--offset", type=int)
        planning.add_argument("--shift", type=int, help="messages; negative goes back")
        planning.add_argument("--like", default="", help="the group to stand like")
        planning.add_argument("--plan", default="", help="the applied plan to take back, for the target undo")
        planning.add_argument(
            "--set",
            action="append",
            metavar="TOPIC/BROKER/QUEUE=OFFSET",
            help="for the target exact; repeat it",
        )
        restoring = actions.add_parser("restore", help="plan to put the offsets back to those of a moment")
        restoring.add_argument("group")
        restoring.add_argument("--time", required=True, help="ISO 8601 with zone")
        _add_scope(restoring)
        for each in (planning, restoring):
            add_cluster(each)
            add_accepting(each)
        self.add_change_actions(actions)

    def _plan(self, *, group: str, target: str, cluster: str, format: str, **options: Any) -> None:
        given = {
            "time_ms": time_ms(options["time"]) if options["time"] else None,
            "offset": options["offset"],
            "shift": options["shift"],
            "like_group": options["like"] or None,
            "undo_plan": options["plan"] or None,
            "offsets": [_queue_offset(word) for word in options["set"] or ()] or None,
        }
        params = {"target": target, **_scope(options), **accepting(options)}
        params |= {name: value for name, value in given.items() if value is not None}
        self.make_plan(cluster_name(cluster), group, params, format)

    def _restore(self, *, group: str, time: str, cluster: str, format: str, **options: Any) -> None:
        params = {"target": "as_of", "time_ms": time_ms(time), **_scope(options), **accepting(options)}
        self.make_plan(cluster_name(cluster), group, params, format)


def _add_scope(parser: CommandParser) -> None:
    parser.add_argument("--topic", action="append", help="may be repeated; all of the group without it")
    parser.add_argument(
        "--queue", action="append", metavar="TOPIC/BROKER/QUEUE", help="only this queue; may be repeated"
    )


def _scope(options: dict[str, Any]) -> dict[str, Any]:
    queues = [_queue(word) for word in options["queue"] or ()]
    scope: dict[str, Any] = {"queues": queues} if queues else {}
    return scope | ({"topics": options["topic"]} if options["topic"] else {})


def _queue(word: str) -> dict[str, Any]:
    """``orders/broker-a/3``; raises CommandError."""
    parts = word.split("/")
    if len(parts) != 3 or not all(parts) or not parts[2].isdecimal():
        raise CommandError(f"{word}: a queue is TOPIC/BROKER/QUEUE, such as orders/broker-a/3.")
    return {"topic": parts[0], "broker_name": parts[1], "queue_id": int(parts[2])}


def _queue_offset(word: str) -> dict[str, Any]:
    """``orders/broker-a/3=1204``; raises CommandError."""
    place, equals, offset = word.rpartition("=")
    if not equals or not offset.isdecimal():
        raise CommandError(f"{word}: give the offset too, such as orders/broker-a/3=1204.")
    return {**_queue(place), "offset": int(offset)}
