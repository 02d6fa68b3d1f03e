"""A store with light queues goes from Apache to brokerd and back, each killed; what else is there comes back too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from consumers import MQAdmin
from tests.brokerd.running import RawClient, pull_fields, send_fields
from tests.peers.test_store_swap import LIVELY, NAMES, SIZES, WITHIN_S
from tests.support.apache_cluster import OLD_RELEASE, RELEASE, WITHOUT_TIMERS, ApacheBroker, ApacheCluster
from tests.support.broker_process import BrokerProcess
from tests.support.parallel_cases import ParallelCases

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

LIGHT = {"enableLmq": "true", "enableMultiDispatch": "true"}
COUNT = 60  # by each broker
ALL, THIRD, LATE = "%LMQ%all", "%LMQ%third", "%LMQ%late"
UNSERVED = {"Batched": "+queue.type=BatchCQ", "Compacted": "+cleanup.policy=COMPACTION"}
Broker = ApacheBroker | BrokerProcess


async def send(client: RawClient, topic: str, body: str, queue_id: int = 0, **properties: str) -> int:
    """Return the code of the answer."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    fields = send_fields(topic, queue_id=queue_id, properties=text)
    return (await client.ask(RequestCode.SEND_MESSAGE_V2, fields, body.encode())).code


async def read_all(client: RawClient, topic: str, queue_id: int = 0) -> list[str]:
    found: list[str] = []
    fields = {"topic": topic, "queueId": str(queue_id)}
    offset = int((await client.ask(RequestCode.GET_MIN_OFFSET, fields)).ext_fields["offset"])
    while True:
        fields = pull_fields("%LMQ%readers", topic, offset, queue_id=queue_id)
        answer = await client.ask(RequestCode.PULL_MESSAGE, fields)
        next_offset = int(answer.ext_fields["nextBeginOffset"])
        if answer.code != 0 and next_offset <= offset:
            return found
        found += [record.body.decode() for record in decode_records(answer.body)]
        offset = next_offset


async def fill(client: RawClient, first: int) -> None:
    """Message n is in ALL, every third in THIRD too, and one waits for a second before it is in LATE."""
    for number in range(first, first + COUNT):
        names = f"{ALL},{THIRD}" if number % 3 == 0 else ALL
        assert await send(client, "Orders", f"m{number}", number % 4, INNER_MULTI_DISPATCH=names) == 0
    assert await send(client, "Orders", f"late{first}", DELAY="1", INNER_MULTI_DISPATCH=LATE) == 0


async def check(client: RawClient, count: int, committed: Mapping[tuple[str, str], int]) -> None:
    """Every light queue has its messages in order, offsets are what was committed."""
    assert await read_all(client, ALL) == [f"m{number}" for number in range(count)]
    assert await read_all(client, THIRD) == [f"m{number}" for number in range(0, count, 3)]
    # 4.9.7 has the delayed message there before its time too; after a kill any broker may deliver it twice.
    late, deadline = {f"late{number}" for number in range(0, count, COUNT)}, time.monotonic() + WITHIN_S
    while (found := set(await read_all(client, LATE))) != late:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.2)
    for (group, topic), offset in committed.items():
        fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        assert answer.ext_fields.get("offset") == str(offset), (group, topic, answer)


async def commit(client: RawClient, offset: int, file: Path) -> dict[tuple[str, str], int]:
    """Commit for a group of light queues and an ordinary one, and wait until the broker has saved it."""
    keys = [("%LMQ%readers", ALL), ("readers", ALL), ("readers", "Orders")]
    for group, topic in keys:
        fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0
    deadline = time.monotonic() + WITHIN_S
    while not file.exists() or file.read_text().count(f":{offset}") < len(keys):
        assert time.monotonic() < deadline, "offsets are not saved"
        await asyncio.sleep(0.1)
    return dict.fromkeys(keys, offset)


async def begin(broker: Broker, namesrv: str, attributes: Mapping[str, str]) -> None:
    async with MQAdmin([namesrv]) as admin:
        await admin.create_topic(broker.address, TopicConfig("Orders", 4, 4))
        await admin.create_subscription_group(broker.address, SubscriptionGroupConfig(group_name="readers"))
    client = await RawClient.connect(broker.address)
    for topic, attribute in attributes.items():
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "order": "false", "attributes": attribute,
        }  # fmt: skip
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
        for number in range(5):
            assert await send(client, topic, f"{topic}{number}", KEYS=f"k{number}") == 0
    await client.close()


async def serve(
    broker: Broker, count: int, committed: Mapping[tuple[str, str], int], offset: int, file: Path
) -> dict[tuple[str, str], int]:
    """Check what is there, go on, and be killed."""
    client = await RawClient.connect(broker.address)
    if count:
        await check(client, count, committed)
    await fill(client, count)
    await check(client, count + COUNT, committed)
    committed = await commit(client, offset, file)
    broker.kill()
    await client.close()
    return committed


async def is_refused(address: str, topic: str) -> None:
    client = await RawClient.connect(address)
    for code, fields in (
        (RequestCode.SEND_MESSAGE_V2, send_fields(topic)),
        (RequestCode.PULL_MESSAGE, pull_fields("readers", topic, 0)),
    ):
        answer = await client.ask(code, fields, b"x")
        assert answer.code == 16 and "which this broker does not serve" in (answer.remark or ""), answer
    await client.close()


async def end_with(
    address: str, count: int, committed: Mapping[tuple[str, str], int], unserved: Mapping[str, str]
) -> None:
    """Check what came back, and that it goes on."""
    client = await RawClient.connect(address)
    await check(client, count, committed)
    await fill(client, count)
    await check(client, count + COUNT, committed)
    if "Batched" in unserved:
        assert await read_all(client, "Batched") == [f"Batched{number}" for number in range(5)]
    await client.close()


def swap(release: str, tmp_path: Path) -> None:
    changes = {**SIZES, **LIVELY, **LIGHT, **WITHOUT_TIMERS}
    unserved = UNSERVED if release == RELEASE else {}
    with ApacheCluster(
        tmp_path, names=("broker-a",), with_our_name_server=True, changes=changes, release=release
    ) as cluster:
        theirs = cluster.brokers[0]
        store = theirs.folder / "store"
        file = store / "config" / "lmqConsumerOffset.json"
        asyncio.run(begin(theirs, cluster.namesrv, unserved))
        committed = asyncio.run(serve(theirs, 0, {}, 11, file))
        ours = BrokerProcess(store, **NAMES, **SIZES, **LIVELY, **LIGHT).start()
        try:
            for topic in unserved:
                asyncio.run(is_refused(ours.address, topic))
            committed = asyncio.run(serve(ours, COUNT, committed, 12, file))
            # Killed once more: what it built from the log is in its own files now.
            ours.start()
            committed = asyncio.run(serve(ours, 2 * COUNT, committed, 13, file))
        finally:
            ours.stop()
        cluster.start_brokers()
        asyncio.run(end_with(theirs.address, 3 * COUNT, committed, unserved))


@pytest.fixture(scope="module")
def swaps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParallelCases[str, None]]:
    """By Apache's release."""
    with ParallelCases(
        lambda release: swap(release, tmp_path_factory.mktemp("swap")), (RELEASE, OLD_RELEASE)
    ) as begun:
        yield begun


@pytest.mark.parametrize("release", [RELEASE, OLD_RELEASE])
def test_light_queues_go_to_brokerd_and_back(release: str, swaps: ParallelCases[str, None]) -> None:
    swaps.finish(release)
