from __future__ import annotations

import re
from pathlib import Path

from brokerd.processor.handlers import BROKER_HANDLERS, NAMESRV_HANDLERS
from brokerd.processor.not_served import NOT_SERVED, refusal
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import running

DOCS = Path(__file__).parents[3] / "docs"
# Requests of a broker to its clients.
PUSHED = {39, 40, 220, 221, 326}
OURS = {RequestCode.TIDEMARK_PUT_ASSIGNMENT, RequestCode.TIDEMARK_GET_CAPABILITIES}  # docs/wire-extensions.md


def section(page: str, head: str) -> str:
    """Return what stands below a head, up to the next one."""
    return (DOCS / page).read_text("utf-8").partition(f"\n{head}\n")[2].partition("\n#")[0]


def numbers(text: str) -> set[int]:
    """Return the numbers in a text, and those within its ranges (100–106)."""
    found: set[int] = set()
    for first, last in re.findall(r"\b(\d+)(?:–(\d+))?\b", text):
        found.update(range(int(first), int(last or first) + 1))
    return found


def rows(text: str) -> list[list[str]]:
    """Return the cells of tables whose first cell begins with a number."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0][:1].isdecimal()]


def test_each_code_of_the_protocol_is_served_or_refused_with_a_reason() -> None:
    codes = {
        code
        for row in rows(section("reference/protocol.md", "### 2.1 RequestCode"))
        for code in numbers(row[0])
    }
    assert len(codes) > 150
    assert codes - PUSHED <= {*BROKER_HANDLERS, *NAMESRV_HANDLERS, *NOT_SERVED}


def test_the_page_of_the_broker_lists_what_is_served_and_what_is_not() -> None:
    text = section("brokerd.md", "## What it serves")
    assert {*BROKER_HANDLERS, *NAMESRV_HANDLERS} - OURS <= numbers(text.partition("|")[0])
    refused = {code: row[1] for row in rows(text) for code in numbers(row[0])}
    assert refused == NOT_SERVED


def test_it_gives_a_reason_in_rocketmqs_words() -> None:
    assert refusal(9999) == " request type 9999 not supported"
    assert refusal(27) == (
        " request type 27 not supported: no release of RocketMQ answers it; "
        "DELETE_EXPIRED_COMMITLOG (329) deletes expired files"
    )


def test_it_refuses_nothing_that_has_a_handler() -> None:
    assert not NOT_SERVED.keys() & {*BROKER_HANDLERS, *NAMESRV_HANDLERS}


async def test_it_answers_3_with_the_reason_on_both_ports(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for client in (await broker.client(), await broker.namesrv_client()):
            answer = await client.ask(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
            assert (answer.code, answer.remark) == (
                3,
                " request type 354 not supported: this broker keeps its queues and tables in files, not in RocksDB",
            )
