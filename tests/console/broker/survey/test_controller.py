"""What the survey reads of a broker that a controller manages; bodies as Apache 5.3.3 writes them.

`python -m tests.peers.real_clusters` reads the real ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from brokerd.remoting.codes import RequestCode
from console.broker.survey.connections import ControlledReplica
from console.broker.survey.reads import BrokerAnswer, BrokerPlace, ask_brokers
from console.brokers.mqadmin import Connection, close_admins, with_admin
from tests.consumers.fake_broker import FakeBroker

EPOCHS = (
    b'{"brokerId":0,"brokerName":"broker-a","clusterName":"apache","epochList":['
    b'{"endOffset":880,"epoch":1,"startOffset":0},'
    b'{"endOffset":9223372036854775807,"epoch":3,"startOffset":880}],"maxOffset":880}'
)
REPLICAS = (
    b'{"replicasInfoTable":{"broker-a":{'
    b'"inSyncReplicas":[{"alive":true,"brokerAddress":"10.0.0.2:10911","brokerId":2,"brokerName":"broker-a"}],'
    b'"masterAddress":"10.0.0.2:10911","masterBrokerId":2,"masterEpoch":3,'
    b'"notInSyncReplicas":[{"alive":false,"brokerAddress":"10.0.0.1:10911","brokerId":1,"brokerName":"broker-a"}],'
    b'"syncStateSetEpoch":5}}}'
)


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """A broker that knows its configuration and epochs, and answers as its own controller."""
    async with FakeBroker() as made:
        config = f"enableControllerMode=true\ncontrollerAddr=127.0.0.1:1;{made.addr}\n".encode()
        bodies = {
            RequestCode.GET_BROKER_CONFIG: config,
            RequestCode.GET_BROKER_EPOCH_CACHE: EPOCHS,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: REPLICAS,
        }
        for code, body in bodies.items():
            made.answers[code] = lambda command, body=body: command.response(0, body=body)
        made.answers[RequestCode.CONTROLLER_GET_METADATA_INFO] = lambda command: command.response(
            0, ext_fields={"controllerLeaderAddress": made.addr}
        )
        yield made


@pytest.fixture(autouse=True)
def admins() -> Iterator[None]:
    yield
    close_admins()


async def surveyed(broker: FakeBroker) -> BrokerAnswer:
    place = BrokerPlace("broker-a", 0, broker.addr)
    admin = with_admin(Connection(broker.addr))
    (found,) = await asyncio.to_thread(ask_brokers, admin, [place], [place])
    return found


async def test_the_first_controller_that_answers_tells_the_replicas(broker: FakeBroker) -> None:
    found = await surveyed(broker)
    assert (found.epoch, found.epoch_reason, found.master_epoch, found.sync_set_reason) == (3, "", 3, "")
    assert found.sync_set == [
        ControlledReplica(broker_id=2, addr="10.0.0.2:10911", is_master=True, in_sync=True, alive=True),
        ControlledReplica(broker_id=1, addr="10.0.0.1:10911", is_master=False, in_sync=False, alive=False),
    ]


async def test_a_controller_that_refuses_leaves_the_reason(broker: FakeBroker) -> None:
    broker.answers[RequestCode.CONTROLLER_GET_SYNC_STATE_DATA] = lambda command: command.response(
        2007, "no leader"
    )
    found = await surveyed(broker)
    assert (found.epoch, found.sync_set, found.master_epoch) == (3, None, None)
    assert "no leader" in found.sync_set_reason


async def test_other_brokers_are_not_asked(broker: FakeBroker) -> None:
    broker.answers[RequestCode.GET_BROKER_CONFIG] = lambda command: command.response(
        0, body=b"brokerName=a\n"
    )
    found = await surveyed(broker)
    assert (found.epoch, found.sync_set, found.epoch_reason, found.sync_set_reason) == (None, None, "", "")
    assert not {1005, 1006, 1007} & set(broker.codes())
