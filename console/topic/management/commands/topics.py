"""`topics`: list topics; plan, apply and undo their creation, change, quarantine and deletion."""

import json
from typing import Any

from django.core.management.base import CommandParser

from console.operation import services
from console.operation.command_line import ChangeCommand, add_cluster, cluster_name
from console.topic import selectors
from console.topic.topic_config import MESSAGE_TYPES, PERMISSIONS, permission_letters

SETTINGS = ("write_queues", "read_queues", "perm", "message_type", "order", "brokers")
STEPS = {
    "quarantine": "plan that nobody may use it; its messages stay",
    "release": "plan to end the quarantine",
    "delete": "plan to delete it; only from quarantine",
}


class Command(ChangeCommand):
    help = "List topics; plan, apply and undo changes of them."
    kinds = tuple(
        f"topic_{deed}" for deed in ("create", "change", "quarantine", "release", "delete", "force_delete")
    )
    confirms = "the topic's name, where the plan asks for it"

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="topics as the last round saw them")
        listing.add_argument("--query", default="", help="part of the name")
        listing.add_argument("--kind", action="append", choices=selectors.KINDS, help="default NORMAL")
        listing.add_argument("--sort", choices=tuple(selectors.SORTS), default="topic")
        listing.add_argument("--descending", action="store_true")
        listing.add_argument("--limit", type=int, default=200)
        add_cluster(listing)
        for deed, words in (("create", "plan a new topic"), ("change", "plan a change; changes nothing")):
            planning = actions.add_parser(deed, help=words)
            planning.add_argument("topic")
            planning.add_argument("--write-queues", type=int, help="per broker")
            planning.add_argument("--read-queues", type=int, help="per broker")
            planning.add_argument("--perm", type=int, choices=tuple(PERMISSIONS))
            planning.add_argument("--message-type", choices=MESSAGE_TYPES)
            planning.add_argument("--order", choices=("true", "false"))
            planning.add_argument(
                "--broker", dest="brokers", action="append", help="may be repeated; all without it"
            )
            add_cluster(planning)
        for deed, words in STEPS.items():
            step = actions.add_parser(deed, help=words)
            step.add_argument("topic")
            add_cluster(step)
            if deed == "delete":
                step.add_argument("--force", action="store_true", help="without quarantine")
        self.add_change_actions(actions)

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
            query=query,
            kinds=kind or ("NORMAL",),
            sort=sort,
            descending=descending,
            per_page=limit,
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

    def _create(self, *, topic: str, cluster: str, format: str, **options: Any) -> None:
        self._make("topic_create", topic, _settings(options), cluster, format)

    def _change(self, *, topic: str, cluster: str, format: str, **options: Any) -> None:
        self._make("topic_change", topic, _settings(options), cluster, format)

    def _quarantine(self, *, topic: str, cluster: str, format: str, **_: Any) -> None:
        self._make("topic_quarantine", topic, {}, cluster, format)

    def _release(self, *, topic: str, cluster: str, format: str, **_: Any) -> None:
        self._make("topic_release", topic, {}, cluster, format)

    def _delete(self, *, topic: str, force: bool, cluster: str, format: str, **_: Any) -> None:
        self._make("topic_force_delete" if force else "topic_delete", topic, {}, cluster, format)

    def _make(self, kind: str, topic: str, params: dict[str, Any], cluster: str, format: str) -> None:
        self.print_plan(services.create_plan(kind, cluster_name(cluster), topic, params, None), format)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, as parameters of a plan."""
    given = {name: options[name] for name in SETTINGS if options[name] is not None}
    return given | ({"order": given["order"] == "true"} if "order" in given else {})
