"""`offsets`: plan, apply, undo and restore the committed offsets of a group."""

from typing import Any

from django.core.management.base import CommandParser
from msgspec import structs

from console.group.offsets.stored import OffsetParams
from console.group.offsets.targets import PARAMETERS, TARGETS, queue_of_word
from console.operation.command_line import (
    ChangeCommand,
    add_accepting,
    add_cluster,
    cluster_name,
    time_ms,
)
from console.text.stored import as_json


class Command(ChangeCommand):
    help = "Plan, apply, undo and restore offset changes of a consumer group."
    kind = "offset_change"

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        planning = actions.add_parser("plan", help="plan a change: show what would change; changes nothing")
        planning.add_argument("group")
        planning.add_argument("--target", required=True, choices=TARGETS)
        _add_scope(planning)
        for value in PARAMETERS:
            action = "append" if value.repeats else "store"
            planning.add_argument(
                value.option, dest=value.name, type=value.of_word, action=action, help=value.help
            )
        restoring = actions.add_parser(
            "restore", help="plan to restore the offsets of a time; changes nothing"
        )
        restoring.add_argument("group")
        restoring.add_argument("--time", required=True, help="the time, ISO 8601 with zone")
        _add_scope(restoring)
        for each in (planning, restoring):
            add_cluster(each)
            add_accepting(each)
        self.add_change_actions(actions)

    def _plan(self, *, group: str, target: str, cluster: str, format: str, **options: Any) -> None:
        given = {each.name: options[each.name] for each in PARAMETERS}
        values = {name: value for name, value in given.items() if value not in (None, "")}
        self._show(OffsetParams(target=target, **values), group, cluster, format, **options)

    def _restore(self, *, group: str, time: str, cluster: str, format: str, **options: Any) -> None:
        self._show(OffsetParams(target="as_of", time_ms=time_ms(time)), group, cluster, format, **options)

    def _show(
        self,
        params: OffsetParams,
        group: str,
        cluster: str,
        format: str,
        *,
        topic: list[str] | None,
        queue: list[str] | None,
        accept_without: list[str] | None,
        **_: Any,
    ) -> None:
        """Make the plan for the topics and queues of the options."""
        scoped = structs.replace(
            params,
            topics=tuple(topic) if topic else None,
            queues=tuple(queue_of_word(word) for word in queue or ()),
            accept_without=tuple(accept_without or ()),
        )
        self.make_plan(cluster_name(cluster), group, as_json(scoped), format)


def _add_scope(parser: CommandParser) -> None:
    parser.add_argument("--topic", action="append", help="may be repeated (default: all topics of the group)")
    parser.add_argument(
        "--queue", action="append", metavar="TOPIC/BROKER/QUEUE", help="only this queue; may be repeated"
    )
