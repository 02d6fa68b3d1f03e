"""`groups`: list groups; plan, apply and undo their creation, change of settings, quarantine and deletion."""

import json
from typing import Any

from django.core.management.base import CommandParser

from console.figures import duration
from console.group import selectors
from console.group.settings_config import FIELDS, MEANING
from console.operation import services
from console.operation.command_line import ChangeCommand, add_cluster, cluster_name

STEPS = {
    "quarantine": "plan that its members may not consume; its offsets stay",
    "release": "plan to end the quarantine",
    "delete": "plan to delete it; only from quarantine",
}


class Command(ChangeCommand):
    help = "List consumer groups; plan, apply and undo changes of their settings."
    kinds = tuple(
        f"group_{deed}" for deed in ("create", "change", "quarantine", "release", "delete", "force_delete")
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="groups as the last round saw them")
        listing.add_argument("--query", default="", help="part of the name")
        listing.add_argument("--status", default="", help="a lag status such as STALLED, or PARTIAL")
        for name, values in selectors.FILTERS.items():
            listing.add_argument(f"--{name.replace('_', '-')}", choices=tuple(values), default="")
        listing.add_argument("--sort", choices=tuple(selectors.SORTS), default="attention")
        listing.add_argument("--ascending", action="store_true")
        listing.add_argument("--limit", type=int, default=200)
        add_cluster(listing)
        for deed, words in (("create", "plan a new group"), ("change", "plan a change; changes nothing")):
            planning = actions.add_parser(deed, help=words)
            planning.add_argument("group")
            for name, (_, lowest, _) in FIELDS.items():
                kind: dict[str, Any] = {"choices": ("true", "false")} if lowest is None else {"type": int}
                planning.add_argument(
                    f"--{name.replace('_', '-')}", help=MEANING[name].replace("%", "%%"), **kind
                )
            planning.add_argument(
                "--broker", dest="brokers", action="append", help="may be repeated; all without it"
            )
            add_cluster(planning)
        for deed, words in STEPS.items():
            step = actions.add_parser(deed, help=words)
            step.add_argument("group")
            add_cluster(step)
            if deed == "delete":
                step.add_argument("--force", action="store_true", help="without quarantine")
                step.add_argument(
                    "--with-topics", action="store_true", help="its retry and dead-letter topics too"
                )
                step.add_argument("--keep-offsets", action="store_true", help="its committed offsets stay")
        self.add_change_actions(actions)

    def _list(
        self, *, query: str, sort: str, ascending: bool, limit: int, cluster: str, format: str, **options: Any
    ) -> None:
        page = selectors.group_page(
            cluster_name(cluster),
            query=query,
            status=options["status"] or None,
            filters={name: options[name] for name in selectors.FILTERS if options[name]},
            sort=sort,
            descending=not ascending,
            per_page=limit,
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

    def _create(self, *, group: str, cluster: str, format: str, **options: Any) -> None:
        self._make("group_create", group, _settings(options), cluster, format)

    def _change(self, *, group: str, cluster: str, format: str, **options: Any) -> None:
        self._make("group_change", group, _settings(options), cluster, format)

    def _quarantine(self, *, group: str, cluster: str, format: str, **_: Any) -> None:
        self._make("group_quarantine", group, {}, cluster, format)

    def _release(self, *, group: str, cluster: str, format: str, **_: Any) -> None:
        self._make("group_release", group, {}, cluster, format)

    def _delete(
        self,
        *,
        group: str,
        force: bool,
        with_topics: bool,
        keep_offsets: bool,
        cluster: str,
        format: str,
        **_: Any,
    ) -> None:
        chosen = {"with_topics": with_topics, "keep_offsets": keep_offsets}
        params = {name: True for name, is_set in chosen.items() if is_set}
        self._make("group_force_delete" if force else "group_delete", group, params, cluster, format)

    def _make(self, kind: str, group: str, params: dict[str, Any], cluster: str, format: str) -> None:
        self.print_plan(services.create_plan(kind, cluster_name(cluster), group, params, None), format)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, as parameters of a plan."""
    given = {}
    for name, (_, lowest, _) in FIELDS.items():
        if options[name] is not None:
            given[name] = options[name] == "true" if lowest is None else options[name]
    return given | ({"brokers": options["brokers"]} if options["brokers"] else {})
