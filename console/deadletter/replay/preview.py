"""Preview of a replay: which dead letters match, were replayed before, will expire."""

from __future__ import annotations

import dataclasses
import time
from array import array
from collections.abc import Callable, Mapping

from console.brokers.mqadmin import BlockingMQAdmin, MessageQueue, MessageRecord
from console.brokers.queues import BrokerQueue
from console.deadletter.dead_letters import LetterReader, Sieve, Unreadable, original_topic
from console.deadletter.replay.before import Span
from console.text.stored import Stored

PREVIEW_MAX = 100_000  # letters counted for the preview; the rest is counted while replaying
PREVIEW_MS = 15_000
# Queue, offset → message id of its letters; returns offset → plan of those that a replay had.
LettersBefore = Callable[[MessageQueue, Mapping[int, str]], Mapping[int, str]]
TOPICS_MAX = 1_000  # original topics counted separately; no group subscribes to more


@dataclasses.dataclass(slots=True)
class Counted:
    """Letters of one queue, counted while they are read."""

    matched: int = 0
    already: int = 0
    unreadable: int = 0


class PreviewRow(Stored, frozen=True, kw_only=True):
    """One queue of the dead-letter topic in the plan: how many of its letters match."""

    topic: str
    broker_name: str
    queue_id: int
    from_offset: int
    to_offset: int
    letters: int
    matched: int
    already: int
    unreadable: int

    @classmethod
    def of(cls, place: BrokerQueue, counted: Counted) -> PreviewRow:
        """Return the row of a queue."""
        return cls(
            topic=place.queue.topic,
            broker_name=place.queue.broker_name,
            queue_id=place.queue.queue_id,
            from_offset=place.min_offset,
            to_offset=place.max_offset,
            letters=place.max_offset - place.min_offset,
            matched=counted.matched,
            already=counted.already,
            unreadable=counted.unreadable,
        )

    @property
    def span(self) -> Span:
        """Its offsets."""
        return Span(
            broker_name=self.broker_name,
            queue_id=self.queue_id,
            from_offset=self.from_offset,
            to_offset=self.to_offset,
        )


@dataclasses.dataclass(slots=True)
class Preview:
    """Counts of the letters read. Times in ms since 1970 UTC.

    ``complete``: all letters were read. ``newest`` is the last letter to die of those that match and would be
    sent.
    """

    rows: list[PreviewRow]
    matched: int = 0
    already: int = 0
    in_doubt: int = 0  # not in `already`, and an earlier replay may have sent them
    unreadable: int = 0
    topics: dict[str, int] = dataclasses.field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int | None = None
    complete: bool = True
    newest: tuple[MessageQueue, MessageRecord] | None = None
    died_ms: array[int] = dataclasses.field(default_factory=lambda: array("q"))

    @property
    def is_empty(self) -> bool:
        """Whether all letters were read, and none of them matches."""
        return self.complete and not (self.matched or self.unreadable)

    def take(
        self, letters: list[MessageRecord | Unreadable], wanted: Sieve, counted: Counted
    ) -> dict[int, MessageRecord]:
        """Count a window; return offset → letter of those that match."""
        found: dict[int, MessageRecord] = {}
        for letter in letters:
            if isinstance(letter, Unreadable):
                self.unreadable += 1
                counted.unreadable += 1
            elif wanted.matches(letter):
                found[letter.queue_offset] = letter
                topic = original_topic(letter)
                if topic in self.topics or len(self.topics) < TOPICS_MAX:
                    self.topics[topic] = self.topics.get(topic, 0) + 1
                self.died_ms.append(letter.store_timestamp_ms)
        if found:
            first = min(letter.store_timestamp_ms for letter in found.values())
            last = max(letter.store_timestamp_ms for letter in found.values())
            self.first_ms = first if self.first_ms is None else min(self.first_ms, first)
            self.last_ms = last if self.last_ms is None else max(self.last_ms, last)
        self.matched += len(found)
        counted.matched += len(found)
        return found

    def skip(self, found: Mapping[int, MessageRecord], already: Mapping[int, str], place: BrokerQueue) -> int:
        """Count the letters that were replayed before, and return how many; keep the newest that was not."""
        for offset, letter in found.items():
            newest = self.newest[1].store_timestamp_ms if self.newest else -1
            if offset not in already and letter.store_timestamp_ms >= newest:
                self.newest = place.queue, letter
        self.already += len(already)
        return len(already)

    def expiring(self, retention_ms: int | None, until_ms: int) -> int | None:
        """Return how many matching letters may expire before ``until_ms``; None: retention unknown."""
        if retention_ms is None:
            return None
        return sum(died_ms + retention_ms <= until_ms for died_ms in self.died_ms)


def look_through(
    admin: BlockingMQAdmin,
    queues: list[BrokerQueue],
    wanted: Sieve,
    sent_before: LettersBefore,
    in_doubt_before: LettersBefore,
) -> Preview:
    """Read the letters of these queues within the limits.

    Raises BrokerUnavailable, RemotingTimeout, MQBrokerError.
    """
    preview = Preview(rows=[])
    deadline, looked_at = time.monotonic() + PREVIEW_MS / 1000, 0
    for place in queues:
        counted = Counted()
        reader = LetterReader(admin, place)
        while reader.at < place.max_offset:
            if looked_at >= PREVIEW_MAX or time.monotonic() > deadline:
                preview.complete = False
                break
            low, window = reader.at, reader.read()
            found = preview.take(window.letters, wanted, counted)
            ids = {offset: letter.message_id for offset, letter in found.items()}
            already = sent_before(place.queue, ids)
            counted.already += preview.skip(found, already, place)
            preview.in_doubt += len(in_doubt_before(place.queue, ids).keys() - already.keys())
            looked_at += window.end - low
        preview.rows.append(PreviewRow.of(place, counted))
    return preview
