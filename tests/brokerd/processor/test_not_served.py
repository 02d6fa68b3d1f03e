from __future__ import annotations

from pathlib import Path

from brokerd.processor.handlers import BROKER_HANDLERS, NAMESRV_HANDLERS
from brokerd.processor.not_served import NOT_SERVED, refusal
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import running


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
