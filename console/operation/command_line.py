"""Apply and undo plans on a terminal: what the commands ``offsets`` and ``dlq`` have in common.

Exit codes: 0 done, 1 refused (the text gives the reason), 3 the state drifted or does not allow it, 4 the job
failed or was cancelled.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.dateparse import parse_datetime

from console.brokers.mqadmin import MQBrokerError, MQClientError
from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import RESULT_LISTS, Job, Plan
from console.operation.plan.coverage import KeptCoverage, Verdict, of_job
from console.operation.plan.params import ACCEPT_WITHOUT, RawParams
from console.operation.selectors import plan_kind
from console.text import JsonObject

REFUSED, NOT_NOW, JOB_FAILED = 1, 3, 4
POLL_S = 0.5


class ChangeCommand(BaseCommand):
    """Run the actions of a subclass, ``apply`` and ``undo``; turn refusals into exit codes."""

    kind: str
    # The kinds of a command that has several; empty: `kind` alone.
    kinds: tuple[str, ...] = ()
    confirms = "the group's name, where the plan asks for it"

    def add_change_actions(self, actions: Any) -> None:
        """Add ``apply PLAN`` and ``undo PLAN``."""
        applying = actions.add_parser("apply", help="apply a plan and wait until its job ends")
        applying.add_argument("plan")
        applying.add_argument("--confirm", default="", help=self.confirms)
        applying.add_argument("--reason", default="", help="kept in the audit")
        applying.add_argument(
            "--here", action="store_true", help="run the job in this process, without a worker"
        )
        applying.add_argument("--no-wait", action="store_true", help="print the id of the job and exit")
        undoing = actions.add_parser("undo", help="plan to undo an applied plan; changes nothing")
        undoing.add_argument("plan")
        add_accepting(undoing)
        for parser in (applying, undoing):
            parser.add_argument("--format", choices=["table", "json"], default="table")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, "_" + options["action"].replace("-", "_"))(**options)
        except (
            errors.PlanDrifted,
            errors.PlanBlocked,
            errors.PlanExpired,
            errors.PlanAlreadyApplied,
        ) as error:
            raise CommandError(str(error), returncode=NOT_NOW) from error
        except errors.OperationError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        except (MQClientError, MQBrokerError) as error:
            raise CommandError(str(error), returncode=REFUSED) from error

    def make_plan(self, cluster: str, group: str, params: RawParams, format: str) -> None:
        """Make a plan of this command's kind and print it."""
        self.print_plan(services.create_plan(self.kind, cluster, group, params, None), format)

    def _apply(
        self, *, plan: str, confirm: str, reason: str, here: bool, no_wait: bool, format: str, **_: Any
    ) -> None:
        if selectors.plan(plan).kind not in (self.kinds or (self.kind,)):
            raise CommandError(f"{plan} is a plan of another command.")
        job = services.apply_plan(plan, None, confirm, reason)
        if here:
            runner.run(job.id, run_name())
        if not no_wait:
            job = self._wait(job.id, show=format == "table")
        if format == "json":
            self.stdout.write(json.dumps(job.as_row(full=True), indent=1))
        else:
            printed_below = (*RESULT_LISTS, Verdict.key)
            figures = " ".join(
                f"{key}={value}" for key, value in job.result.items() if key not in printed_below
            )
            self.stdout.write(f"{job.id} {job.state} {figures}".rstrip())
            left_out = of_job(job)
            if left_out is not None:
                self.stdout.write(left_out.words)
        if job.is_final and job.state != "SUCCEEDED":
            raise CommandError(f"{job.id} {job.state}: {job.error}", returncode=JOB_FAILED)

    def _undo(self, *, plan: str, format: str, **options: Any) -> None:
        accepted = accepting(options).get(ACCEPT_WITHOUT, ())
        self.print_plan(services.undo(plan, None, accept_without=accepted), format)

    def _wait(self, job_id: str, *, show: bool) -> Job:
        """Poll until the job is final: a line per change, a progress line only on a terminal."""
        last = ""
        while True:
            job = selectors.job(job_id)
            line = f"{job.state} {job.progress.get('done', 0)}/{job.progress.get('total', '?')}"
            if show and line != last and self.stderr.isatty():
                self.stderr.write(f"\r{line:<60}", ending="")
            if job.is_final:
                if show and self.stderr.isatty():
                    self.stderr.write("")
                return job
            last = line
            time.sleep(POLL_S)

    def print_plan(self, plan: Plan, format: str) -> None:
        """Print the plan as sentences and rows, or as JSON."""
        if format == "json":
            self.stdout.write(json.dumps(plan_row(plan), indent=1, ensure_ascii=False))
            return
        self.stdout.write(f"{plan.id}: {plan.summary}")
        for row in plan_kind(plan.kind).terminal_rows(plan):
            self.stdout.write(f"  {row}")
        for warning in plan.warnings:
            self.stdout.write(f"  {warning['level']}: {warning['title']}. {warning['text']}".rstrip())
        if plan.blocked:
            self.stdout.write(f"It cannot be applied: {plan.blocked}")
        else:
            self.stdout.write(f"Apply until {plan.expires_at:%H:%M:%S} UTC: {plan.equivalent['command']}")


def plan_row(plan: Plan) -> JsonObject:
    """Return a plan as the commands print it in JSON."""
    names = (
        "id",
        "kind",
        "cluster",
        "subject",
        "params",
        "diff",
        "summary",
        "warnings",
        "blocked",
        "confirm",
    )
    return {
        **{name: getattr(plan, name) for name in names},
        "coverage": plan.before.get(KeptCoverage.key),
        "messages": plan.messages,
        "expires_at": plan.expires_at.isoformat(),
        "verb": plan_kind(plan.kind).verb,
    }


def run_name() -> str:
    """Return the name under which this process runs a job."""
    return f"{socket.gethostname()}:{os.getpid()}:command"


def add_cluster(parser: CommandParser) -> None:
    """Add ``--cluster NAME``, optional where there is only one cluster."""
    parser.add_argument("--cluster", default="", help="name of the cluster (default: the only one)")
    parser.add_argument("--format", choices=["table", "json"], default="table")


def add_accepting(parser: CommandParser) -> None:
    """Add ``--accept-without BROKER``."""
    parser.add_argument(
        "--accept-without",
        action="append",
        metavar="BROKER",
        help="leave out this broker, which does not answer; may be repeated",
    )


def accepting(options: RawParams) -> RawParams:
    """Return the parameter of the plan if the option was given."""
    return {ACCEPT_WITHOUT: options["accept_without"]} if options.get("accept_without") else {}


def cluster_name(given: str) -> str:
    """Return the name of the cluster to use; raise CommandError."""
    names = [each.name for each in cluster_selectors.live_clusters()]
    if given:
        if not Cluster.objects.filter(name=given).exists():
            raise CommandError(f"There is no cluster {given}. Clusters: {', '.join(names) or 'none'}.")
        return given
    if len(names) != 1:
        raise CommandError(
            f"Name the cluster: --cluster {'|'.join(names)}."
            if names
            else "There is no cluster yet: add one with manage.py clusters add."
        )
    return names[0]


def time_ms(text: str) -> int:
    """Parse ``2026-03-12T08:20:00+08:00`` to ms since 1970 UTC; raise CommandError without a zone."""
    try:
        at = parse_datetime(text)
    except ValueError as error:
        raise CommandError(f"{text} is not a time that exists ({error}).") from error
    if at is None or at.tzinfo is None:
        raise CommandError(
            f"{text} is not an ISO 8601 time with its zone, such as 2026-03-12T08:20:00+08:00."
        )
    return round(at.timestamp() * 1000)
