"""Copies of a message: whose they are, and how many tries they stand for."""

from __future__ import annotations

import pytest

from console.brokers.mqadmin import MessageRecord
from console.message.life_line.copies import copied_for, died, first_topic, retry_words, waited_since


def record(topic: str, tries: int = 0, **properties: str) -> MessageRecord:
    host = ("127.0.0.1", 10911)
    return MessageRecord(topic, 0, 5, 900, 100, b"x", 0, 0, 0, 10, host, 20, host, tries, 0, properties)


@pytest.mark.parametrize(
    ("topic", "group"), [("orders", ""), ("%DLQ%billing", "billing"), ("%RETRY%billing", "billing")]
)
def test_retries_and_dead_letters_belong_to_a_group(topic: str, group: str) -> None:
    assert copied_for(topic) == group


def test_a_copy_names_the_topic_it_was_first_sent_to() -> None:
    letter = "%DLQ%billing"
    assert first_topic(record(letter, RETRY_TOPIC="orders")) == "orders"
    # Since 4.9.1, and then it is the one to trust: RETRY_TOPIC of a letter that was replayed is its retry topic.
    assert first_topic(record(letter, RETRY_TOPIC="%RETRY%billing", DLQ_ORIGIN_TOPIC="orders")) == "orders"
    assert first_topic(record(letter, RETRY_TOPIC="%RETRY%billing")) == ""
    assert first_topic(record(letter)) == ""


def test_tries_of_all_deaths_are_counted_once() -> None:
    """A broker counts one more when it makes the copy: a letter of the 16th retry has 17."""
    assert died([record("%DLQ%billing", 17)]) == "17 tries failed, then a dead letter"
    assert died([record("%DLQ%billing", 17), record("%DLQ%billing", 3)]) == "20 tries failed, 2 dead letters"
    assert died([record("%DLQ%billing")]) == "1 try failed, then a dead letter"


def test_a_retry_that_counts_no_try_was_sent_anew() -> None:
    assert retry_words(record("%RETRY%billing", 3)) == "retry 3"
    assert retry_words(record("%RETRY%billing")) == "sent to the group again"


def test_a_message_of_a_timer_names_when_it_began_to_wait() -> None:
    assert waited_since(record("orders", TIMER_ENQUEUE_MS="15")) == 15
    assert waited_since(record("orders", TIMER_ENQUEUE_MS=str(2**63 - 1))) is None, "it came after its time"
    assert waited_since(record("orders", TIMER_ENQUEUE_MS="21")) is None
    assert waited_since(record("orders", TIMER_ENQUEUE_MS="soon")) is None
    assert waited_since(record("orders")) is None
