"""`messages`: find and follow the messages of a topic. No offset of any group moves."""

import dataclasses
import datetime
import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.message import services
from console.message.services import BadCursor, MessageView, TopicNotFound
from console.mqadmin import MQBrokerError, MQClientError
from console.operation.command_line import add_cluster, cluster_name, time_ms

FOLLOW_EVERY_S = 1.0


class Command(BaseCommand):
    help = "Find, show and follow messages."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        finding = actions.add_parser("find", help="newest first, or oldest first from a time on")
        finding.add_argument("--key", default="", help="looked up in the brokers' index")
        finding.add_argument("--from", dest="from_time", help="ISO 8601 with zone; then oldest first")
        finding.add_argument("--limit", type=int, default=20)
        showing = actions.add_parser("get", help="one message by unique key or offset id")
        showing.add_argument("message_id")
        following = actions.add_parser("tail", help="print what arrives from now on, until Ctrl-C")
        following.add_argument("--count", type=int, default=0, help="end after so many messages")
        for each in (finding, showing, following):
            each.add_argument("topic")
            add_cluster(each)
        for each in (finding, following):
            each.add_argument("--tag", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(**options)
        except (TopicNotFound, BadCursor, MQClientError, MQBrokerError) as error:
            raise CommandError(str(error)) from error

    def _find(
        self,
        *,
        topic: str,
        tag: str,
        key: str,
        from_time: str | None,
        limit: int,
        cluster: str,
        format: str,
        **_: Any,
    ) -> None:
        name = cluster_name(cluster)
        if key:
            rows, silent = services.by_key(name, topic, key, limit=limit), {}
        else:
            from_ms = time_ms(from_time) if from_time else None
            page = services.browse(
                name, topic, newest=from_ms is None, tag=tag or None, from_ms=from_ms, limit=limit
            )
            rows, silent = page.rows, page.silent
        self._print(rows, format)
        for broker, reason in silent.items():
            self.stderr.write(f"{broker} could not be read, its messages are missing: {reason}")

    def _get(self, *, topic: str, message_id: str, cluster: str, format: str, **_: Any) -> None:
        found = services.message_by_id(cluster_name(cluster), message_id, topic)
        if found is None:
            raise CommandError(f"No broker has a message {message_id} of {topic}.")
        self._print([found], format)

    def _tail(self, *, topic: str, tag: str, count: int, cluster: str, format: str, **_: Any) -> None:
        name, seen = cluster_name(cluster), 0
        cursor: str | None = None
        from_ms = time.time_ns() // 1_000_000
        while count == 0 or seen < count:
            page = services.browse(
                name,
                topic,
                newest=False,
                tag=tag or None,
                from_ms=from_ms,
                cursor=cursor,
                limit=services.LIMIT_MAX,
            )
            rows = page.rows[: count - seen] if count else page.rows
            self._print(rows, format)
            seen += len(rows)
            cursor = page.end_cursor
            time.sleep(FOLLOW_EVERY_S)

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
