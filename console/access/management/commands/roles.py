"""`roles`: list, set and remove roles, the named sets of verbs that grants assign."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.access import services
from console.access.errors import RoleRejected
from console.access.models import Role, Verb


class Command(BaseCommand):
    help = "List, set and remove roles. Give a role to a person or team in /admin/access/grant/."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="list every role with its verbs")
        listing.add_argument("--format", choices=["table", "json"], default="table")
        setting = actions.add_parser("set", help="create a role, or replace the verbs of one")
        setting.add_argument("name")
        setting.add_argument("verbs", nargs="+", choices=Verb.values)
        removing = actions.add_parser("remove", help="remove a role that is not in use")
        removing.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(**options)
        except RoleRejected as refusal:
            raise CommandError(str(refusal)) from refusal

    def _list(self, *, format: str, **_: Any) -> None:
        roles = [{"name": role.name, "verbs": role.verbs} for role in Role.objects.all()]
        if format == "json":
            self.stdout.write(json.dumps(roles, indent=1))
            return
        for role in roles:
            self.stdout.write(f"{role['name']:<20} {' '.join(role['verbs'])}")

    def _set(self, *, name: str, verbs: list[str], **_: Any) -> None:
        services.set_role(name, verbs, actor=None)
        self.stdout.write(f"{name}: {' '.join(verbs)}")

    def _remove(self, *, name: str, **_: Any) -> None:
        services.remove_role(name, actor=None)
        self.stdout.write(f"{name} removed")
