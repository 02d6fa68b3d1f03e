"""`up` in the list of commands; `manage.py` itself runs it, before Django is loaded."""

from typing import Any

from django.core.management.base import BaseCommand

from console.process import supervisor


class Command(BaseCommand):
    help = "Run everything on this machine: Redis, brokerd, the console, its worker, demo traffic."
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        raise SystemExit(supervisor.main(argv[2:]))

    def handle(self, *args: Any, **options: Any) -> None:
        raise SystemExit(supervisor.main([]))
