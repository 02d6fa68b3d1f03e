"""`doctor`: list the problems of this set-up and how to fix them."""

import io
import json
from typing import Any

from django.core.checks import ERROR, WARNING, run_checks
from django.core.management.base import BaseCommand, CommandParser
from rich.console import Console
from rich.table import Table

from console import checks, health
from console.cluster import selectors as cluster_selectors
from console.cluster import services as cluster_services
from console.cluster.errors import ClusterError

WIDTH_WITHOUT_TERMINAL = 160  # in a file or a pipe: one finding, one line, mostly


class Command(BaseCommand):
    help = "Check the set-up and print how to fix it. Exit code 1 when something must be fixed."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", choices=["table", "json"], default="table")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = [*_of_checks(), *_of_parts(), *_of_clusters()]
        if options["format"] == "json":
            self.stdout.write(json.dumps(findings, indent=1))
        else:
            self._print(findings)
        if any(finding["level"] == "error" for finding in findings):
            raise SystemExit(1)

    def _print(self, findings: list[dict[str, str]]) -> None:
        table = Table("", "What", "How to fix it", box=None, pad_edge=False)
        marks = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "error": "[red]error[/]"}
        for finding in findings:
            table.add_row(marks[finding["level"]], finding["text"], finding["hint"])
        text = io.StringIO()
        width = None if self.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
        Console(file=text, width=width, force_terminal=self.stdout.isatty()).print(table)
        self.stdout.write(text.getvalue())


def _finding(level: str, text: str, hint: str = "") -> dict[str, str]:
    return {"level": level, "text": text, "hint": hint}


def _of_checks() -> list[dict[str, str]]:
    found = []
    for message in run_checks(tags=[checks.TAG], include_deployment_checks=True):
        level = "error" if message.level >= ERROR else "warning" if message.level >= WARNING else "ok"
        found.append(_finding(level, message.msg, message.hint or ""))
    return found or [_finding("ok", "settings, data folder, databases, Redis and Java")]


def _of_parts() -> list[dict[str, str]]:
    """Report the running parts; one that does not run is a warning, no error of the set-up."""
    hint = "Start everything with manage.py up, or the workers as console/celery.py describes."
    return [
        _finding(
            "warning" if part.reason else "ok",
            f"{part.name}: {part.reason or 'ok'}",
            hint if part.reason else "",
        )
        for part in health.readiness().parts
        if part.name == "worker and beat"
    ]


def _of_clusters() -> list[dict[str, str]]:
    found = []
    for cluster in cluster_selectors.live_clusters():
        try:
            brokers = cluster_services.probe(cluster.connection)
        except ClusterError as error:
            found.append(
                _finding(
                    "warning",
                    f"cluster {cluster.name}: {error}",
                    "Start it, or remove it with manage.py clusters remove.",
                )
            )
        else:
            found.append(
                _finding("ok", f"cluster {cluster.name}: {', '.join(brokers)} at {cluster.namesrv_addrs}")
            )
    return found
