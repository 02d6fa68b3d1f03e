"""`offsets`: plan, apply, undo and restore the committed offsets of a group."""

from typing import Any

from django.core.management.base import CommandParser

from console.operation.command_line import ChangeCommand, add_cluster, cluster_name, time_ms

TARGETS = ("earliest", "latest", "time", "offset", "shift", "like_group", "as_of")


class Command(ChangeCommand):
    help = "Plan, apply, undo and restore offset changes of a consumer group."
    kind = "offset_change"

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        planning = actions.add_parser("plan", help="show what would change; changes nothing")
        planning.add_argument("group")
        planning.add_argument("--target", required=True, choices=TARGETS)
        planning.add_argument("--topic", action="append", help="may be repeated; all of the group without it")
        planning.add_argument("--time", help="ISO 8601 with zone, for the targets time and as_of")
        planning.add_argument("--offset", type=int)
        planning.add_argument("--shift", type=int, help="messages; negative goes back")
        planning.add_argument("--like", default="", help="the group to stand like")
        restoring = actions.add_parser("restore", help="plan to put the offsets back to those of a moment")
        restoring.add_argument("group")
        restoring.add_argument("--time", required=True, help="ISO 8601 with zone")
        restoring.add_argument("--topic", action="append")
        for each in (planning, restoring):
            add_cluster(each)
        self.add_change_actions(actions)

    def _plan(
        self,
        *,
        group: str,
        target: str,
        topic: list[str] | None,
        time: str | None,
        offset: int | None,
        shift: int | None,
        like: str,
        cluster: str,
        format: str,
        **_: Any,
    ) -> None:
        params: dict[str, Any] = {"target": target}
        given = {
            "topics": topic,
            "time_ms": time_ms(time) if time else None,
            "offset": offset,
            "shift": shift,
            "like_group": like or None,
        }
        params |= {name: value for name, value in given.items() if value is not None}
        self.make_plan(cluster_name(cluster), group, params, format)

    def _restore(
        self, *, group: str, time: str, topic: list[str] | None, cluster: str, format: str, **_: Any
    ) -> None:
        params: dict[str, Any] = {"target": "as_of", "time_ms": time_ms(time)}
        self.make_plan(cluster_name(cluster), group, params | ({"topics": topic} if topic else {}), format)
