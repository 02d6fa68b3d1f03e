"""mqadmin as released, run command by command in one JVM, and what became of each."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
from pathlib import Path

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.message import Message
from consumers import MQAdmin
from tests.support import java_peer
from tests.support.mqadmin_commands import COMMANDS

COMMAND_WITHIN_S, ALL_WITHIN_S = 20, 900
QUEUES, MESSAGES_A_QUEUE, COMMITTED = 4, 5, 3
CODE = re.compile(r"CODE: (\d+)")


async def fill(namesrv: str, broker: str) -> dict[str, str]:
    """Make topic and group of the commands; return ids of a message."""
    async with MQAdmin([namesrv]) as admin:
        for topic, queues in (("Tools", QUEUES), ("%RETRY%tools", 1)):
            config = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues, perm=6)
            await admin.create_topic(broker, config)
        await admin.create_subscription_group(broker, SubscriptionGroupConfig(group_name="tools"))
        sent = []
        for number in range(QUEUES * MESSAGES_A_QUEUE):
            unique = f"7F0000010000018B4AAC2000000000{number:02X}"
            message = Message("Tools", b"x" * 100, {"KEYS": "k1", "TAGS": "t", "UNIQ_KEY": unique})
            sent.append(await admin.send(broker, message, queue_id=number % QUEUES))
        for queue_id in range(QUEUES):
            await admin.update_consumer_offset(broker, "tools", "Tools", queue_id, COMMITTED)
        async with asyncio.timeout(30):  # Apache indexes in a thread of its own
            while not await admin.query_message(broker, "Tools", "k1"):
                await asyncio.sleep(0.1)
            # Statistics are sampled every 10 s; 4.9.7 of Apache has no rate here.
            while (await admin.topic_stats(broker, "Tools")).topic_put_tps == 0:
                await asyncio.sleep(0.2)
    return {"id": sent[0].offset_message_id, "unique": sent[0].message_id, "key": "k1"}


def run_commands(release: str, folder: Path, namesrv: str, broker: str, cluster: str) -> dict[str, str]:
    """Run every command that the release has; return what each printed, by its text in COMMANDS."""
    class_path = java_peer.build(release)
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "logback_tools.xml").write_text("<configuration/>")
    topic = {"topicName": "Listed", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    (folder / "topics.json").write_text(json.dumps([topic]))
    (folder / "groups.json").write_text(json.dumps([{"groupName": "listed"}]))
    values = {
        "namesrv": namesrv,
        "broker": broker,
        "name": "broker-a",
        "cluster": cluster,
        "folder": str(folder),
    }
    values |= asyncio.run(fill(namesrv, broker))
    texts = [f"{name} {arguments}".strip() for name, arguments, releases in COMMANDS if release in releases]
    lines = [text.format(**values).split() for text in texts]
    done = subprocess.run(
        ["java", "-Xmx256m", "-Djava.security.manager=allow", *java_peer.SHORT_LIFE, "-Xlog:disable"]
        + [f"-Duser.home={java_peer.HOME}", f"-Drocketmq.home.dir={folder}"]
        + [
            "-Drocketmq.client.logUseSlf4j=true",
            "-cp",
            class_path,
            "tidemark.peer.Tools",
            str(COMMAND_WITHIN_S),
        ],
        input="".join(
            "\t".join([*words, *([] if "-n" in words else ["-n", namesrv])]) + "\n" for words in lines
        ),
        capture_output=True,
        text=True,
        check=True,
        timeout=ALL_WITHIN_S,
    )
    ran = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("RAN\t")]
    return {text: base64.b64decode(line[2]).decode() for text, line in zip(texts, ran, strict=True)}


def outcome(printed: str) -> str:
    """`done`, the code of the answer that ended it, or `fails` when the tool itself did."""
    code = CODE.search(printed)
    if code is not None:
        return code[1]
    is_failed = (
        "SubCommandException" in printed or "still running" in printed or "ended the process" in printed
    )
    return "fails" if is_failed else "done"
