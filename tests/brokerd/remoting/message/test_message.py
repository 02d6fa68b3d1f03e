from __future__ import annotations

from brokerd.remoting.message.message import Message


def test_it_finds_tags_and_keys() -> None:
    message = Message("T", b"", {"TAGS": "a", "KEYS": "k1 k2"})
    assert (message.tags, message.keys) == ("a", "k1 k2")
    assert (Message("T", b"").tags, Message("T", b"").keys) == ("", "")
