"""The codec of message traces, against the layouts of TraceDataEncoder.java."""

from __future__ import annotations

import pytest

from brokerd.remoting.message.trace import (
    RECORDS_MAX,
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TracedMessageType,
    TracedOutcome,
    TraceRecord,
    decode_traces,
    encode_trace,
)

ID = "0A0407151F9063947C6B6E2F24B70911"
OFFSET_ID = "0A00000200002A9F0000000000002329"
PUB = PubTrace(
    1_700_000_000_000,
    "DefaultRegion",
    "makers",
    "orders",
    ID,
    "paid",
    "A-1 A-2",
    "10.0.0.2:10911",
    25,
    7,
    TracedMessageType.NORMAL,
    OFFSET_ID,
    True,
)
BEFORE = SubBeforeTrace(1_700_000_000_040, None, "billing", "Q1", ID, 2, None)
AFTER = SubAfterTrace("Q1", ID, 12, False, "A-1", TracedOutcome.EXCEPTION, 1_700_000_000_052, "billing")
END = EndTransactionTrace(
    1_700_000_000_000,
    "DefaultRegion",
    "makers",
    "orders",
    ID,
    None,
    "",
    "10.0.0.2:10911",
    TracedMessageType.TRANSACTION_COMMIT,
    ID,
    "COMMIT_MESSAGE",
    True,
)
# As the Java class writes them; "|" stands for 0x01.
WRITTEN: list[tuple[TraceRecord, str]] = [
    (
        PUB,
        "Pub|1700000000000|DefaultRegion|makers|orders|" + ID + "|paid|A-1 A-2|10.0.0.2:10911|25|7|0|"
        f"{OFFSET_ID}|true",
    ),
    (BEFORE, f"SubBefore|1700000000040|null|billing|Q1|{ID}|2|null"),
    (AFTER, f"SubAfter|Q1|{ID}|12|false|A-1|2|1700000000052|billing"),
    (
        END,
        f"EndTransaction|1700000000000|DefaultRegion|makers|orders|{ID}|null||10.0.0.2:10911|2|{ID}|COMMIT_MESSAGE|true",
    ),
]


def wire(text: str) -> str:
    return text.replace("|", "\x01") + "\x02"


@pytest.mark.parametrize(("record", "text"), WRITTEN)
def test_a_record_is_written_as_java_writes_it_and_read_back(record: TraceRecord, text: str) -> None:
    assert encode_trace(record) == wire(text)
    assert list(decode_traces(wire(text))) == [record]


def test_many_records_are_read_in_order() -> None:
    assert list(decode_traces("".join(wire(text) for _, text in WRITTEN))) == [PUB, BEFORE, AFTER, END]


def test_records_of_other_versions_are_read() -> None:
    fields = WRITTEN[0][1].split("|")
    with_host, without_offset_id, oldest = (
        next(decode_traces(wire("|".join(each))))
        for each in ([*fields, "10.0.0.9@7"], [*fields[:12], "false"], fields[:12])
    )
    assert isinstance(with_host, PubTrace) and with_host.client_host == "10.0.0.9@7"
    assert encode_trace(with_host) == wire(WRITTEN[0][1] + "|10.0.0.9@7")
    assert isinstance(without_offset_id, PubTrace)
    assert (without_offset_id.is_success, without_offset_id.offset_message_id) == (False, None)
    assert isinstance(oldest, PubTrace) and oldest.is_success
    cloud = f"SubAfter|Q1|{ID}|12|true|A-1|0"
    assert [encode_trace(each) for each in decode_traces(wire(cloud))] == [wire(cloud)]


def test_only_records_of_the_message_are_read_if_it_is_given() -> None:
    other = wire(WRITTEN[1][1].replace(ID, "OTHER").replace("|null", f"|{ID}"))
    assert len(list(decode_traces(other))) == 1
    assert list(decode_traces(other + wire(WRITTEN[2][1]), ID)) == [AFTER]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Pub\x02",
        "\x02\x02",
        *(wire("|".join(text.split("|")[:4])) for _, text in WRITTEN),
        wire("Recall|1|r|g|t"),
    ],
)
def test_damaged_and_unknown_records_are_skipped(text: str) -> None:
    assert list(decode_traces(text + wire(WRITTEN[2][1]))) == [AFTER]


def test_a_number_that_is_none_is_unknown() -> None:
    text = WRITTEN[2][1].replace("|12|", "|x|")
    (record,) = decode_traces(wire(text))
    assert isinstance(record, SubAfterTrace) and record.cost_ms is None


def test_records_of_one_message_are_bounded() -> None:
    assert len(list(decode_traces(wire(WRITTEN[1][1]) * (RECORDS_MAX + 5)))) == RECORDS_MAX
