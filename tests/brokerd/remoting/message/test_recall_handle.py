from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokerd.remoting.message.recall_handle import RecallHandle, decode_recall_handle

WIRE = Path(__file__).parent.parent.parent.parent / "golden" / "wire" / "5.3.3"


def test_it_reads_and_makes_the_handles_of_javas_broker() -> None:
    lines = (WIRE / "manifest.jsonl").read_text("utf-8").splitlines()
    fields = [row["header"].get("extFields", {}) for row in map(json.loads, lines)]
    handles = {each["recallHandle"] for each in fields if each.get("recallHandle", "bad") != "bad"}
    assert handles
    for handle in handles:
        decoded = decode_recall_handle(handle)
        assert (decoded.topic, decoded.broker_name) == ("GoldenTopic", "broker-a")
        assert decoded.encode() == handle


@pytest.mark.parametrize("text", ["", "bad", "====", "djIgYSBiIGMgZA==", "djEgYSBiIGM=", "é", "_w=="])
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="recall handle is invalid"):
        decode_recall_handle(text)


def test_names_outside_ascii_pass() -> None:
    handle = RecallHandle("T", "主", "5", "k?>")
    assert decode_recall_handle(handle.encode()) == handle
