"""Handles of popped messages as Java's client writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.message import pop_handle as handle
from brokerd.remoting.message.pop_handle import Handle, parse_handle

GOLDEN = Path(__file__).parents[3] / "golden" / "wire" / "5.3.3" / "manifest.jsonl"


def test_it_reads_and_writes_the_handles_of_golden_requests() -> None:
    rows = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]
    texts = [
        row["header"]["extFields"]["extraInfo"]
        for row in rows
        if row["code"] in (200051, 200053) and row["kind"] == "request"
    ]
    assert len(texts) >= 5
    for text in texts:
        assert parse_handle(text).text(int(text.split(" ")[7])) == text


@pytest.mark.parametrize("text", ["", "1 2 3 4 0 b", "1 2 3 x 0 b 0 1"])
def test_it_refuses_what_is_no_handle(text: str) -> None:
    with pytest.raises(HeaderFieldError, match="extraInfo"):
        parse_handle(text)


def test_it_names_retry_topics_both_ways() -> None:
    v1, v2 = handle.both_retry_topics("T_a", "g")
    assert (v1, v2) == ("%RETRY%g_T_a", "%RETRY%g+T_a")
    assert [handle.retry_flag(name) for name in ("T_a", v1, v2)] == ["0", "1", "2"]
    assert [handle.normal_topic(name, "g") for name in ("T_a", v1, v2)] == ["T_a", "T_a", "T_a"]
    assert [handle.topic_of_flag("T_a", "g", flag) for flag in "012"] == ["T_a", v1, v2]
    with pytest.raises(HeaderFieldError):
        handle.topic_of_flag("T", "g", "3")


def test_it_writes_what_clients_make_handles_of() -> None:
    assert handle.start_offset_info("T", 1, 3) == "0 1 3"
    assert handle.message_offset_info("%RETRY%g_T", 0, [3, 5]) == "1 0 3,5"
    assert handle.queue_count_info("T", 1, 0) == "0 1 0"
    assert handle.message_count_info("T", 1, 7, 2) == "0 qo1%7 2"
    assert Handle(0, 1, 2, 999, "0", "b", 0).is_order
