"""Send one batch of copies and find out the outcome, in a thread beside the one that writes the ledger.

A 5.x broker may store a copy for the failed group among the dead letters again although the send succeeded:
see ``_buried``.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    Message,
    MessageRecord,
    MQAdmin,
    MQBrokerError,
    SendResult,
    dead_letter_topic,
    decode_offset_message_id,
)
from console.brokers.queues import ask_each
from console.deadletter.replay.targets import Outgoing

SEND_DEADLINE_MS = 30_000  # for a whole batch on one broker; each window of it has 3 s of its own
Answer = SendResult | Exception
Batch = list[tuple[Message, int]]


class TooLate(Exception):
    """The lease had ended before the send; copies that another broker got earlier are in the ledger."""


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """Answers in the order of the copies; ``buried``: indexes of copies that became dead letters again."""

    answers: list[Answer]
    buried: frozenset[int]


class Sender:
    """Sender for one group's retry topic, or for other topics (``to_group`` false)."""

    def __init__(self, admin: BlockingMQAdmin, group: str, *, to_group: bool) -> None:
        self.admin = admin
        self.dead_letter_topic = dead_letter_topic(group)
        self.to_group = to_group

    def exchange(self, outgoing: Sequence[Outgoing], until_s: float) -> Exchange:
        """Send every copy once, pipelined, to all brokers in parallel. Raises nothing.

        After ``until_s`` of the monotonic clock nothing is sent: the lease of a worker that was frozen has
        ended.
        """
        try:
            answers = self._answers(outgoing, until_s)
        except TooLate as late:
            answers = [late] * len(outgoing)
        return Exchange(answers, self._buried(outgoing, answers) if self.to_group else frozenset())

    def _answers(self, outgoing: Sequence[Outgoing], until_s: float) -> list[Answer]:
        async def send(client: MQAdmin, batch: tuple[str, Batch]) -> list[Answer]:
            if time.monotonic() >= until_s:
                raise TooLate("the lease has ended")
            return await client.send_many(*batch, window=len(outgoing))

        by_addr: dict[str, list[int]] = {}
        for index, copy in enumerate(outgoing):
            by_addr.setdefault(copy.target.addr, []).append(index)
        batches = {
            addr: [(outgoing[index].message, outgoing[index].target.queue.queue_id) for index in indexes]
            for addr, indexes in by_addr.items()
        }
        sent = ask_each(
            self.admin,
            {addr: (addr, batch) for addr, batch in batches.items()},
            send,
            SEND_DEADLINE_MS,
        )
        answers: dict[int, Answer] = {}
        for addr, indexes in by_addr.items():
            found = sent[addr]
            for position, index in enumerate(indexes):
                answers[index] = found if isinstance(found, Exception) else found[position]
        return [answers[index] for index in range(len(outgoing))]

    def _buried(self, outgoing: Sequence[Outgoing], answers: Sequence[Answer]) -> frozenset[int]:
        """Return the copies stored in the dead-letter topic instead of the retry topic.

        5.x brokers (AbstractSendMessageProcessor.handleRetryAndDLQ) do that while any queue of the group is
        locked, up to 60 s after the holder died, although the send succeeds; no request reports such locks.
        One copy per broker is checked (33); if it is a dead letter, all of that broker's copies are checked.
        """
        sent = [index for index, answer in enumerate(answers) if isinstance(answer, SendResult)]
        last = {outgoing[index].target.addr: index for index in sent}
        bad = {
            outgoing[index].target.addr for index in self._are_letters(list(last.values()), outgoing, answers)
        }
        return self._are_letters(
            [index for index in sent if outgoing[index].target.addr in bad], outgoing, answers
        )

    def _are_letters(
        self, indexes: Sequence[int], outgoing: Sequence[Outgoing], answers: Sequence[Answer]
    ) -> frozenset[int]:
        requests: dict[int, tuple[str, int]] = {}
        for index in indexes:
            answer = answers[index]
            if isinstance(answer, SendResult):
                place = decode_offset_message_id(answer.offset_message_id)[2]
                requests[index] = outgoing[index].target.addr, place
        if not requests:
            return frozenset()
        found = ask_each(self.admin, requests, lambda client, place: client.view_message(*place))
        return frozenset(
            index
            for index, record in found.items()
            if isinstance(record, MessageRecord) and record.topic == self.dead_letter_topic
        )


def is_refused_for_now(answer: Answer) -> bool:
    """Return whether the broker refused temporarily: nothing is stored, the copy may be sent again."""
    return isinstance(answer, MQBrokerError) and answer.retriable
