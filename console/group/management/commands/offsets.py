"""`offsets`: plan, apply, undo, restore, export and import offsets of a group, or of all on a broker; their past."""

import csv
import json
import time as clock
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from msgspec import structs

from console.group.broker_restore.compared import offsets_now
from console.group.broker_restore.plans import ALL, SCOPES, GroupRestore, make_plans
from console.group.clients.kept_offsets import CLIENT_OFFSETS, SPAN_MS, kept_offsets
from console.group.offset_file.export import exported
from console.group.offset_file.layout import FILE_BYTES_MAX, file_params, read_offset_file
from console.group.offset_file.response import FORMATS
from console.group.offsets.stored import OffsetParams
from console.group.offsets.targets import PARAMETERS, TARGETS, queue_of_word
from console.group.queue_history.readings import QUEUE_HISTORY, queue_history, refusal, usual_step_ms
from console.lag.selectors import collect_interval_ms
from console.lists.spec import ListSpec
from console.operation import selectors, services
from console.operation.command_line import (
    JOB_FAILED,
    REFUSED,
    ChangeCommand,
    accepting,
    add_accepting,
    add_cluster,
    cluster_name,
    run_name,
    time_ms,
)
from console.operation.errors import OperationError
from console.operation.job import runner
from console.text.stored import as_json
from spark.lag.local_time import HOUR_MS

UNCHANGED, FAILED = "unchanged", "NOT RESTORED"


class Command(ChangeCommand):
    help = "Plan, apply, undo, restore, export and import offsets of a consumer group; show their past."
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
        of_brokers = _add_restore_broker(actions)
        _add_export(actions)
        _add_history(actions)
        importing = actions.add_parser("import", help="plan the offsets of an exported file; changes nothing")
        importing.add_argument("file", help="JSON or CSV of `offsets export`")
        importing.add_argument("--group", default="", help="default: the group that the file names")
        importing.add_argument(
            "--broker",
            action="append",
            default=[],
            metavar="OLD=NEW",
            help="the queues of OLD in the file are on NEW here; may be repeated",
        )
        importing.add_argument(
            "--topic", action="append", help="only this topic of the file; may be repeated"
        )
        for each in (planning, restoring, importing):
            add_cluster(each)
            add_accepting(each)
        add_cluster(of_brokers)
        self.add_change_actions(actions)

    def _plan(self, *, group: str, target: str, cluster: str, format: str, **options: Any) -> None:
        given = {each.name: options[each.name] for each in PARAMETERS}
        values = {name: value for name, value in given.items() if value not in (None, "")}
        self._show(OffsetParams(target=target, **values), group, cluster, format, **options)

    def _restore(self, *, group: str, time: str, cluster: str, format: str, **options: Any) -> None:
        self._show(OffsetParams(target="as_of", time_ms=time_ms(time)), group, cluster, format, **options)

    def _restore_broker(
        self,
        *,
        broker: list[str],
        time: str,
        cluster: str,
        scope: str,
        apply: bool,
        confirm: str,
        reason: str,
        format: str,
        **options: Any,
    ) -> None:
        name = cluster_name(cluster)
        if apply and confirm != name:
            raise CommandError(f"Every group is moved: give --confirm {name}.")
        offsets = offsets_now(name, broker)
        found = make_plans(name, broker, time_ms(time), offsets, None, scope=scope)
        states = [self._restored(each, apply, reason) for each in found]
        if format == "json":
            rows = [
                {
                    "group": each.group,
                    "queues": len(each.compared.recorded),
                    "plan": each.plan and each.plan.id,
                    "state": state,
                }
                for each, state in zip(found, states, strict=True)
            ]
            self.stdout.write(json.dumps(rows, indent=1, ensure_ascii=False))
        else:
            for each, state in zip(found, states, strict=True):
                plan = "no plan" if each.plan is None else each.plan.id
                self.stdout.write(f"{each.group}  {plan}  {len(each.compared.recorded)} queues  {state}")
        failed = sum(state.startswith(FAILED) for state in states)
        if failed:
            raise CommandError(f"{failed} of {len(found)} groups were not restored.", returncode=JOB_FAILED)

    def _restored(self, found: GroupRestore, apply: bool, reason: str) -> str:
        """Return what became of a group; with ``apply`` after its job, which runs in this process."""
        if found.refusal:
            return f"{FAILED}: {found.refusal}"
        if found.plan is None:
            return UNCHANGED
        if found.job is not None:
            return str(found.job.state)
        if not apply:
            return str(found.plan.summary)
        try:
            job = services.apply_plan(found.plan.id, None, found.plan.confirm_text, reason)
        except OperationError as refusal:
            return f"{FAILED}: {refusal}"
        runner.run(job.id, run_name())
        ended = selectors.job(job.id)
        return (
            ended.state if ended.state == "SUCCEEDED" else f"{FAILED}: {ended.state} {ended.error}".rstrip()
        )

    def _export(self, *, group: str, cluster: str, time: str, type: str, output: str, **options: Any) -> None:
        at_ms = time_ms(time) if time else None
        found = exported(cluster_name(cluster), group, clock.time_ns() // 1_000_000, at_ms)
        text = "".join(FORMATS[type][0](found))
        if output:
            Path(output).write_text(text, encoding="utf-8")
        else:
            self.stdout.write(text, ending="")

    def _history(
        self,
        *,
        group: str,
        queue: str,
        since: str,
        until: str,
        step: int | None,
        cluster: str,
        format: str,
        **_: Any,
    ) -> None:
        name, now_ms, place = cluster_name(cluster), clock.time_ns() // 1_000_000, queue_of_word(queue)
        to_ms = time_ms(until) if until else now_ms
        from_ms = time_ms(since) if since else to_ms - HOUR_MS
        interval_ms = collect_interval_ms(name)
        step_ms = max(interval_ms, usual_step_ms(to_ms - from_ms, interval_ms) if step is None else step)
        if why := refusal(from_ms, to_ms, step_ms):
            raise CommandError(str(why))
        rows = queue_history(name, group, place.queue, from_ms, to_ms, step_ms, now_ms)
        self._print_rows(rows, QUEUE_HISTORY, format)

    def _clients(
        self, *, group: str, client: str, since: str, until: str, cluster: str, format: str, **_: Any
    ) -> None:
        to_ms = time_ms(until) if until else clock.time_ns() // 1_000_000
        from_ms = time_ms(since) if since else to_ms - SPAN_MS
        rows = kept_offsets(cluster_name(cluster), group, from_ms, to_ms, client)
        self._print_rows(rows, CLIENT_OFFSETS, format)

    def _print_rows(self, rows: Sequence[Any], spec: ListSpec, format: str) -> None:
        """Print rows as the file of their list has them; as a table with its columns aligned."""
        if not rows:
            raise CommandError("Nothing is recorded in this range.", returncode=REFUSED)
        if format == "csv":
            self.stdout.write("".join(spec.csv(rows)), ending="")
            return
        if format == "json":
            names = spec.fields
            found = [{name: attrgetter(name)(row) for name in names} for row in rows]
            self.stdout.write(json.dumps(found, indent=1, ensure_ascii=False))
            return
        head, *cells = csv.reader(spec.csv(rows))
        widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
        for each in (head, *cells):
            words = (cell.ljust(width) for cell, width in zip(each, widths, strict=True))
            self.stdout.write("  ".join(words).rstrip())

    def _import(
        self,
        *,
        file: str,
        group: str,
        cluster: str,
        format: str,
        broker: list[str],
        topic: list[str] | None,
        accept_without: list[str] | None,
        **options: Any,
    ) -> None:
        try:
            with Path(file).open("rb") as opened:
                found = read_offset_file(opened.read(FILE_BYTES_MAX + 1))
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
        params = file_params(found, dict(map(_renamed, broker)), topic or ())
        if not (group or found.group):
            raise CommandError("The file names no group: give --group.")
        params |= accepting({"accept_without": accept_without})
        self.make_plan(cluster_name(cluster), group or found.group, params, format)

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


def _renamed(word: str) -> tuple[str, str]:
    old, equals, new = word.partition("=")
    if not (old and equals and new):
        raise CommandError(f"{word}: name both brokers, such as broker-a=broker-b.")
    return old, new


def _add_restore_broker(actions: Any) -> CommandParser:
    parser: CommandParser = actions.add_parser(
        "restore-broker",
        help="plan to restore all groups on brokers that lost their offsets, a plan for each group",
    )
    parser.add_argument("broker", nargs="+", help="only the queues of these brokers")
    parser.add_argument("--time", required=True, help="the time, ISO 8601 with zone")
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default=ALL,
        help="lost: only queues without an offset now; all: every recorded one (default)",
    )
    parser.add_argument(
        "--apply", action="store_true", help="apply the plans too, one after another, in this process"
    )
    parser.add_argument("--confirm", default="", help="the cluster's name, for --apply")
    parser.add_argument("--reason", default="", help="kept in the audit")
    return parser


def _add_export(actions: Any) -> None:
    exporting = actions.add_parser("export", help="write the committed offsets of all topics to a file")
    exporting.add_argument("group")
    exporting.add_argument("--cluster", default="", help="name of the cluster (default: the only one)")
    exporting.add_argument("--time", default="", help="as recorded then, ISO 8601 (default: the last round)")
    exporting.add_argument("--type", choices=list(FORMATS), default="json")
    exporting.add_argument("--output", default="", metavar="FILE", help="default: standard output")


def _add_history(actions: Any) -> None:
    of_queue = actions.add_parser("history", help="show what was recorded of one queue, step by step")
    of_queue.add_argument("group")
    of_queue.add_argument("queue", metavar="TOPIC/BROKER/QUEUE")
    of_queue.add_argument("--step", type=_step_ms, metavar="SECONDS", help="default: by the range")
    of_clients = actions.add_parser(
        "clients", help="show the offsets that members of a broadcasting group reported"
    )
    of_clients.add_argument("group")
    of_clients.add_argument("--client", default="", help="only of this client")
    for parser, span in ((of_queue, "an hour"), (of_clients, "a day")):
        parser.add_argument(
            "--since", default="", help=f"ISO 8601 with zone (default: {span} before the end)"
        )
        parser.add_argument("--until", default="", help="ISO 8601 with zone (default: now)")
        parser.add_argument("--cluster", default="", help="name of the cluster (default: the only one)")
        parser.add_argument("--format", choices=["table", "json", "csv"], default="table")


def _step_ms(word: str) -> int:
    return int(word) * 1000


def _add_scope(parser: CommandParser) -> None:
    parser.add_argument("--topic", action="append", help="may be repeated (default: all topics of the group)")
    parser.add_argument(
        "--queue", action="append", metavar="TOPIC/BROKER/QUEUE", help="only this queue; may be repeated"
    )
