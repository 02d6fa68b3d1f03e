from __future__ import annotations

import pytest

from brokerd.processor.admin.attributes import TOPIC_ATTRIBUTES, altered, words_of
from brokerd.remoting.errors import MQBrokerError


def test_it_reads_words() -> None:
    assert words_of("+message.type=FIFO, -queue.type") == {"+message.type": "FIFO", "-queue.type": ""}
    assert words_of("") == {}


@pytest.mark.parametrize("text", ["message.type=FIFO", "+message.type", "-message.type=FIFO", "+a=1,+a=2"])
def test_it_refuses_other_words(text: str) -> None:
    with pytest.raises(MQBrokerError, match="kv string format wrong|key duplication") as caught:
        words_of(text)
    assert caught.value.code == 1


def test_it_sets_and_removes() -> None:
    created = altered(None, {"+message.type": "FIFO", "+queue.type": "SimpleCQ"}, TOPIC_ATTRIBUTES)
    assert created == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert altered(created, {"-message.type": ""}, TOPIC_ATTRIBUTES) == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"+queue.type": "SimpleCQ"}, "attempt to update an unchangeable attribute"),
        ({"-message.type": ""}, "attempt to delete a nonexistent key"),
        ({"+message.type": "ODD"}, "value is not in set: ODD"),
        ({"+color": "red"}, "unsupported key: color"),
        ({"message.type": "FIFO"}, "wrong format key"),
    ],
)
def test_it_refuses_what_has_no_effect(words: dict[str, str], reason: str) -> None:
    with pytest.raises(MQBrokerError, match=reason):
        altered({"queue.type": "SimpleCQ"}, words, TOPIC_ATTRIBUTES)
