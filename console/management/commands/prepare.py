"""`prepare`: set up what `up` needs before sign-in. Idempotent, and quick when nothing is to do."""

import json
from typing import Any

from django.conf import settings
from django.core.checks import ERROR, run_checks
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console import checks
from console.access import services as access_services
from console.cluster import services as cluster_services


class Command(BaseCommand):
    help = (
        "Prepare the embedded installation: databases, cluster, first person. Prints JSON with a sign-in key."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="bring the databases up to date first")

    def handle(self, *args: Any, **options: Any) -> None:
        wrong = [found for found in run_checks(tags=[checks.TAG]) if found.level >= ERROR]
        if wrong:
            raise CommandError("\n".join(f"{found.msg} {found.hint or ''}".rstrip() for found in wrong))
        if options["migrate"]:
            for alias in settings.DATABASES:
                call_command("migrate", database=alias, verbosity=0, interactive=False)
        if settings.EMBEDDED_NAMESRV:
            cluster_services.register_embedded(settings.EMBEDDED_NAMESRV)
        person = access_services.ensure_first_person()
        self.stdout.write(json.dumps({"sign_in_key": access_services.create_sign_in_link(person)}))
