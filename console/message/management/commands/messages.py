"""`messages`: find, follow, export and send messages. Reading moves no group offset; sending is a plan."""

import base64
import dataclasses
import datetime
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.brokers.body_format import FORMAT_NAMES
from console.message import services
from console.message.search.body_match import KIND_NAMES, MatchRefused, read_match
from console.message.search.export import EXPORT_MESSAGES_MAX, EXPORT_MS, FORMATS, export
from console.message.search.message_search import open_search, source_of
from console.message.search.query import Query, QueryRefused, tags_of
from console.message.search.tail import TAIL_MS, Tail
from console.message.sending.params import TYPED_BODY_BYTES_MAX, SendParams
from console.message.services import BadCursor, MessageView, TopicNotFound, views
from console.operation.command_line import ChangeCommand, add_cluster, cluster_name, time_ms
from console.operation.plan.places import BrokerQueuePlace, MessagePlace
from console.text.stored import as_json

FOLLOW_EVERY_S = 1.0
FIND_MS = 10 * 60 * 1000
FIND_MAX = 10_000


class Command(ChangeCommand):
    help = "Find, show, follow, export and send messages."
    kind = "message_send"
    confirms = "the topic's name, where the plan asks for it"

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        finding = actions.add_parser("find", help="list messages: newest first, or oldest first with --from")
        finding.add_argument(
            "--key", default="", help="a key, read from the brokers' index; not together with filters"
        )
        finding.add_argument("--limit", type=int, default=20)
        showing = actions.add_parser("get", help="print one message by unique key or offset id")
        showing.add_argument("message_id")
        showing.add_argument("--as", dest="body_format", choices=sorted(FORMAT_NAMES), default="auto")
        following = actions.add_parser("tail", help="print messages as they arrive, until Ctrl-C")
        following.add_argument(
            "--count", type=int, default=0, help="stop after this many messages (default: never)"
        )
        exporting = actions.add_parser(
            "export", help="write every message that matches to a file or standard output"
        )
        exporting.add_argument("--file", choices=list(FORMATS), default="ndjson", help="the format")
        exporting.add_argument("--out", default="-", help="path (default: standard output)")
        exporting.add_argument("--limit", type=int, default=EXPORT_MESSAGES_MAX)
        sending = actions.add_parser("send", help="plan a send: show the message; sends nothing")
        self._add_send(sending)
        for each in (finding, showing, following, exporting, sending):
            each.add_argument("topic")
            add_cluster(each)
        for each in (finding, exporting):
            each.add_argument(
                "--from", dest="from_time", help="from this time, ISO 8601 with zone; then oldest first"
            )
            each.add_argument("--to", dest="to_time", help="before this time, ISO 8601 with zone")
        for each in (finding, following, exporting):
            each.add_argument("--tag", default="", help="tags, like paid || refunded; filtered by the broker")
            each.add_argument("--sql", default="", help="SQL92 expression; filtered by the broker")
            each.add_argument("--find-in", choices=sorted(KIND_NAMES), default="body")
            each.add_argument("--find", default="", help="text to find, filtered by this command")
            each.add_argument(
                "--queue", action="append", default=[], help="a queue, like broker-a:3; may be repeated"
            )
        self.add_change_actions(actions)

    def _add_send(self, sending: CommandParser) -> None:
        sending.add_argument("--body", help="the body, or - for standard input")
        sending.add_argument(
            "--keep-body", action="store_true", help="with --copy: send the body of the original"
        )
        sending.add_argument(
            "--copy", default="", metavar="TOPIC/BROKER/QUEUE/OFFSET", help="the message to copy"
        )
        sending.add_argument("--tag", default="")
        sending.add_argument("--key", action="append", default=[], help="may be repeated")
        sending.add_argument("--property", action="append", default=[], metavar="NAME=VALUE")
        sending.add_argument("--queue", default="", help="a queue, like broker-a:3 (default: any)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except (TopicNotFound, BadCursor, QueryRefused, MatchRefused) as error:
            raise CommandError(str(error)) from error

    def _find(self, *, topic: str, key: str, limit: int, cluster: str, format: str, **options: Any) -> None:
        name = cluster_name(cluster)
        if key:
            self._print(services.by_key(name, topic, key, limit=limit), format)
            return
        if not 0 < limit <= FIND_MAX:
            raise CommandError(f"--limit is 1 to {FIND_MAX:,}; `messages export` writes more.")
        search = open_search(source_of(name, topic), _query(topic, **options), limit=limit, time_ms=FIND_MS)
        while not search.is_done:
            search.step()
            if self.stderr.isatty():
                figures = search.figures()
                line = f"scanned {figures.scanned:,} in {figures.queues} queues, {figures.hits:,} hits"
                self.stderr.write(f"\r{line:<60}", ending="")
        if self.stderr.isatty():
            self.stderr.write("\r" + " " * 60 + "\r", ending="")
        self._print(views(search.picked), format)
        self._warn(search.silent, search.stop_reason)

    def _warn(self, silent: Mapping[str, str], stop_reason: str) -> None:
        for broker, reason in silent.items():
            self.stderr.write(f"{broker} could not be read; its messages are missing: {reason}")
        if stop_reason:
            self.stderr.write(f"Stopped before the end of the topic: {stop_reason}.")

    def _get(
        self, *, topic: str, message_id: str, body_format: str, cluster: str, format: str, **_: Any
    ) -> None:
        name = cluster_name(cluster)
        found = services.hit_by_id(name, message_id, topic)
        if found is None:
            raise CommandError(f"No broker stores the message {message_id} of {topic}.")
        self._print([services.shown(name, found, body_format=body_format)], format)

    def _tail(self, *, topic: str, count: int, cluster: str, format: str, **options: Any) -> None:
        source = source_of(cluster_name(cluster), topic)
        tail, seen = Tail(source, _query(topic, **options)), 0
        while (count == 0 or seen < count) and not tail.is_over:
            arrivals = tail.step()
            hits = arrivals.hits[: count - seen] if count else arrivals.hits
            self._print(views(hits), format)
            seen += len(hits)
            if arrivals.skipped:
                self.stderr.write(f"{arrivals.skipped:,} skipped: more arrive than are shown")
            if count == 0 or seen < count:
                time.sleep(FOLLOW_EVERY_S)
        if tail.is_over:
            self.stderr.write(f"A tail ends after {TAIL_MS // 60_000} minutes.")

    def _export(self, *, topic: str, file: str, out: str, limit: int, cluster: str, **options: Any) -> None:
        if not 0 < limit <= EXPORT_MESSAGES_MAX:
            raise CommandError(f"--limit is 1 to {EXPORT_MESSAGES_MAX:,}.")
        _, _, writer = FORMATS[file]
        source = source_of(cluster_name(cluster), topic)
        search = open_search(source, _query(topic, **options), limit=limit, time_ms=EXPORT_MS)
        pieces = export(search, writer())
        if out == "-":
            target = getattr(self.stdout, "buffer", sys.stdout.buffer)
            for piece in pieces:
                target.write(piece)
            target.flush()
        else:
            with open(out, "wb") as written:
                written.writelines(pieces)
        self._warn(search.silent, search.stop_reason)

    def _send(self, *, topic: str, cluster: str, format: str, **options: Any) -> None:
        body, packed = options["body"], None
        if options["keep_body"]:
            body = None
        elif body == "-":
            body, packed = None, base64.b64encode(sys.stdin.buffer.read(TYPED_BODY_BYTES_MAX + 1)).decode()
        params = SendParams(
            tags=options["tag"],
            keys=" ".join(options["key"]),
            properties=dict(_pair(text) for text in options["property"]),
            body=body,
            body_base64=packed,
            keep_body=options["keep_body"],
            queue=_queue(options["queue"]) if options["queue"] else None,
            source=_place(options["copy"]) if options["copy"] else None,
        )
        self.make_plan(cluster_name(cluster), topic, as_json(params), format)

    def _print(self, rows: list[MessageView], format: str) -> None:
        for row in rows:
            if format == "json":
                self.stdout.write(json.dumps(dataclasses.asdict(row), ensure_ascii=False))
                continue
            at = datetime.datetime.fromtimestamp(row.store_timestamp_ms / 1000, tz=datetime.UTC)
            text = " ".join(row.body_text.split())[:80]
            place = f"{row.broker_name} · {row.queue_id} @ {row.queue_offset}"
            self.stdout.write(
                f"{at:%Y-%m-%d %H:%M:%S.%f} {place:<30} {row.tags:<10} {row.keys:<24} {text}".rstrip()
            )


def _query(
    topic: str,
    *,
    tag: str,
    sql: str,
    find_in: str,
    find: str,
    queue: Sequence[str],
    from_time: str | None = None,
    to_time: str | None = None,
    **_: Any,
) -> Query:
    return Query(
        topic,
        newest=not from_time,
        queues=frozenset(_place_of(text) for text in queue),
        from_ms=time_ms(from_time) if from_time else None,
        to_ms=time_ms(to_time) if to_time else None,
        tags=tags_of(tag),
        sql=sql.strip(),
        match=read_match(find_in, find),
    )


def _place_of(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition(":")
    if not name or not number.isdigit():
        raise CommandError(f"{text} is not a queue; write broker-a:3.")
    return name, int(number)


def _queue(text: str) -> BrokerQueuePlace:
    name, queue_id = _place_of(text)
    return BrokerQueuePlace(broker_name=name, queue_id=queue_id)


def _place(text: str) -> MessagePlace:
    parts = text.rsplit("/", 3)
    if len(parts) != 4 or not parts[2].isdigit() or not parts[3].isdigit():
        raise CommandError(f"{text} is not a message; write TOPIC/BROKER/QUEUE/OFFSET.")
    topic, broker_name, queue_id, queue_offset = parts
    return MessagePlace(
        topic=topic, broker_name=broker_name, queue_id=int(queue_id), queue_offset=int(queue_offset)
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"{text} is not a property; write NAME=VALUE.")
    return name, value
