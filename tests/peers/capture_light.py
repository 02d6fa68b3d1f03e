"""Make the golden files of light queues again: Apache 5.3.3, used by its own Java client, then stopped.

    python -m tests.peers.capture_light

Writes store/5.3.3-light and wire/5.3.3-light below tests/golden, in the shape of the captures beside them. Forty
seconds, most of them the broker's stop. tests/brokerd/test_golden_light.py reads them.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, SerializeType, decode_frame
from brokerd.remoting.message.record import decode_records
from consumers import MQAdmin
from tests.brokerd.running import RawClient, pull_fields
from tests.support import java_peer
from tests.support.apache_cluster import RELEASE, ApacheCluster
from tests.support.java_peer import JavaPeer
from tests.support.relay import Relay

GOLDEN = Path(__file__).parents[1] / "golden"
NAME = f"{RELEASE}-light"
TOPIC, QUEUES = "GoldenLight", ("%LMQ%a", "%LMQ%b")
READERS, OTHERS, POPPERS = "%LMQ%readers", "light-readers", "light-poppers"
SETTINGS: dict[str, str | int] = {
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "brokerClusterName": "DefaultCluster",
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 2_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 200,
    "maxMessageSize": 32_768,
}
# Of each so many pairs, the first of every queue and then the last: what is sent, read, committed and popped.
KEPT = {
    RequestCode.SEND_MESSAGE_V2: 2,
    RequestCode.PULL_MESSAGE: 2,
    RequestCode.GET_MAX_OFFSET: 1,
    RequestCode.GET_MIN_OFFSET: 1,
    RequestCode.UPDATE_CONSUMER_OFFSET: 2,
    RequestCode.QUERY_CONSUMER_OFFSET: 2,
    RequestCode.POP_MESSAGE: 2,
    RequestCode.ACK_MESSAGE: 1,
}
# What a store has beside its messages: half a MB of empty slots, and what the next start makes anew.
LEFT_OUT = ("timerwheel", "timerlog", "lock")


def use(namesrv: str) -> None:
    """Send and read as test_java_light.py does, and pop."""
    class_path = java_peer.build(RELEASE)
    for options in (
        {"queues": ",".join(QUEUES), "group": READERS},
        {"queues": QUEUES[0], "group": OTHERS},
        {"queues": QUEUES[1], "group": POPPERS, "pop": "true", "rounds": 2, "invisible": 60_000},
    ):
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        peer = JavaPeer(class_path, ["light", "--namesrv", namesrv, "--topic", TOPIC, "--count", "6", *words])
        assert peer.finish() == 0 and not peer.failures(), peer.lines


async def answers(address: str) -> dict[str, Any]:
    """What the broker says of its queues: keys and numbers of the messages, ranges, committed offsets."""
    client = await RawClient.connect(address)
    queues, committed = {}, {}
    for queue in (TOPIC, *QUEUES):
        fields = {"topic": queue, "queueId": "0"}
        low = await client.ask(RequestCode.GET_MIN_OFFSET, fields)
        high = await client.ask(RequestCode.GET_MAX_OFFSET, fields)
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(READERS, queue, 0))
        queues[queue] = {
            "min": int(low.ext_fields["offset"]),
            "max": int(high.ext_fields["offset"]),
            "messages": [
                [each.keys, each.queue_offset, each.properties.get("INNER_MULTI_QUEUE_OFFSET")]
                for each in decode_records(answer.body)
            ],
        }
        for group in (READERS, OTHERS, POPPERS):
            answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": group, **fields})
            if answer.code == 0:
                committed[f"{queue}@{group}"] = int(answer.ext_fields["offset"])
    await client.close()
    return {"queues": queues, "committed": committed}


async def make_topic(cluster: ApacheCluster) -> None:
    async with MQAdmin([cluster.namesrv]) as admin:
        await admin.create_topic(cluster.address, TopicConfig(TOPIC, 1, 1))


def pack(store: Path, target: Path) -> None:
    """Copy a stopped store, files that are mostly zeros compressed."""
    for path in sorted(store.rglob("*")):
        place = path.relative_to(store)
        if not path.is_file() or place.parts[0] in LEFT_OUT or path.suffix == ".bak":
            continue
        copy, data = target / place, path.read_bytes()
        copy.parent.mkdir(parents=True, exist_ok=True)
        if data.count(0) * 2 > len(data):
            copy.with_name(f"{copy.name}.gz").write_bytes(gzip.compress(data, mtime=0))
        else:
            copy.write_bytes(data)


def pairs(relay: Relay) -> list[tuple[bytes, bytes]]:
    """Requests of the client and their answers, those that are kept."""
    found: dict[tuple[int, int], bytes] = {}
    both: list[tuple[bytes, bytes]] = []
    for frame in relay.frames:
        command = decode_frame(frame.data[4:])
        if frame.is_from_client and not command.is_response:
            found[frame.connection, command.opaque] = frame.data
        elif not frame.is_from_client and command.is_response:
            both.append((found[frame.connection, command.opaque], frame.data))
    kept: list[tuple[bytes, bytes]] = []
    for code, count in KEPT.items():
        of_code = [pair for pair in both if decode_frame(pair[0][4:]).code == code]
        kept += of_code[:1] if count == 1 else [of_code[0], of_code[-1]]
    return kept


def row(name: str, data: bytes, code: int, **more: Any) -> dict[str, Any]:
    """A line of the manifest."""
    command: RemotingCommand = decode_frame(data[4:])
    header = {"code": command.code, "extFields": command.ext_fields, "flag": command.flag}
    return {
        "file": name,
        "code": code,
        "name": RequestCode(code).name,
        "kind": "response" if command.is_response else "request",
        "direction": "broker to client" if command.is_response else "client to broker",
        "serialize": "json" if command.serialize_type is SerializeType.JSON else "rocketmq",
        "client": RELEASE,
        "server": RELEASE,
        "header": header | ({"remark": command.remark} if command.remark else {}),
        "body_length": len(command.body),
        **more,
    }


def write_frames(relay: Relay, target: Path) -> None:
    target.mkdir(parents=True)
    rows = []
    for number, (request, response) in enumerate(pairs(relay), 1):
        code = decode_frame(request[4:]).code
        stem = f"{number:02}-{RequestCode(code).name.lower()}"
        names = f"{stem}.request.bin", f"{stem}.response.bin"
        for name, data in zip(names, (request, response), strict=True):
            (target / name).write_bytes(data)
        rows.append(row(names[0], request, code, answered=True))
        rows.append(
            row(
                names[1], response, code, request_file=names[0], response_code=decode_frame(response[4:]).code
            )
        )
    lines = [json.dumps(each, ensure_ascii=False) for each in rows]
    (target / "manifest.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    store, wire = GOLDEN / "store" / NAME, GOLDEN / "wire" / NAME
    for each in (store, wire):
        shutil.rmtree(each, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        cluster = ApacheCluster(Path(folder), ("broker-a",), SETTINGS)
        with cluster:
            broker = cluster.brokers[0]
            asyncio.run(make_topic(cluster))
            with (
                Relay(broker.port) as relay,
                Relay(cluster.namesrv_port, broker.address.encode(), relay.address.encode()) as routes,
            ):
                use(routes.address)
            expected = asyncio.run(answers(broker.address))
            assert broker.process is not None
            broker.process.send_signal(signal.SIGTERM)
            broker.process.wait()
        pack(broker.folder / "store", store / "store")
        write_frames(relay, wire)
        lines = [f"{key}={value}\n" for key, value in SETTINGS.items()]
        (store / "broker.conf").write_text("".join(lines))
        (store / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
