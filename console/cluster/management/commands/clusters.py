"""`clusters`: list, add, change and remove the clusters of the console."""

import json
from argparse import BooleanOptionalAction
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.cluster import selectors, services
from console.cluster.errors import ClusterError
from console.cluster.models import Cluster


class Command(BaseCommand):
    help = "List, add, change and remove clusters."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="every cluster with its name servers")
        listing.add_argument("--format", choices=["table", "json"], default="table")
        adding = actions.add_parser(
            "add", help="look after one more cluster; its name servers are asked first"
        )
        adding.add_argument("name")
        adding.add_argument("namesrv_addrs", help="host:port, several separated by semicolons")
        adding.add_argument("--production", action="store_true", help="pages carry a colour band")
        setting = actions.add_parser("set", help="change settings of a cluster; each change is audited")
        setting.add_argument("name")
        setting.add_argument("--namesrv-addrs", help="other name servers; they are asked first")
        setting.add_argument(
            "--production", dest="is_production", action=BooleanOptionalAction, help="a colour band on pages"
        )
        setting.add_argument(
            "--typed-confirm-messages", type=int, help="from so many on, a name must be typed to confirm"
        )
        setting.add_argument(
            "--second-person-messages",
            type=int,
            help="from so many on, a second person must agree; -1: never",
        )
        setting.add_argument("--poll-interval-s", type=int, help="seconds between two rounds of figures")
        removing = actions.add_parser(
            "remove", help="stop looking after a cluster; the cluster itself is not touched"
        )
        removing.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(**options)
        except ClusterError as error:
            raise CommandError(str(error)) from error
        except Cluster.DoesNotExist as error:
            raise CommandError(f"There is no cluster {options['name']}.") from error

    def _list(self, *, format: str, **_: Any) -> None:
        found = selectors.clusters()
        if format == "json":
            rows = [
                {
                    "name": one.name,
                    "namesrv_addrs": one.namesrv_addrs,
                    "is_embedded": one.is_embedded,
                    "is_production": one.is_production,
                }
                for one in found
            ]
            self.stdout.write(json.dumps(rows, indent=1))
            return
        for one in found:
            marks = [
                text for text, on in (("embedded", one.is_embedded), ("production", one.is_production)) if on
            ]
            self.stdout.write(f"{one.name:<20} {one.namesrv_addrs:<40} {' '.join(marks)}".rstrip())

    def _add(self, *, name: str, namesrv_addrs: str, production: bool, **_: Any) -> None:
        services.add_cluster(name, namesrv_addrs, None, is_production=production)
        self.stdout.write(f"{name} added")

    def _set(self, *, name: str, **options: Any) -> None:
        changes = {field: options[field] for field in services.CHANGEABLE if options.get(field) is not None}
        if changes.get("second_person_messages") == -1:
            changes["second_person_messages"] = None
        if not changes:
            raise CommandError("Name at least one setting; `clusters set --help` lists them.")
        services.change_cluster(name, None, **changes)
        self.stdout.write(f"{name} changed: {', '.join(sorted(changes))}")

    def _remove(self, *, name: str, **_: Any) -> None:
        services.remove_cluster(name, None)
        self.stdout.write(f"{name} removed")
