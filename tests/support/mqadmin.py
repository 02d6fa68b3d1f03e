"""mqadmin as released, run command by command in one JVM, and what became of each."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.message import Message
from consumers import MQAdmin
from tests.support import java_peer
from tests.support.mqadmin_commands import COMMANDS, ENDLESS_S

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
            # Statistics are sampled every 10 s; 4.9.7 of Apache has no rate here: None.
            while (await admin.topic_stats(broker, "Tools")).topic_put_tps == 0:
                await asyncio.sleep(0.2)
    return {"id": sent[0].offset_message_id, "unique": sent[0].message_id, "key": "k1"}


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One run of mqadmin: what each command printed, by its text in COMMANDS; the names of all that the tool has."""

    printed: dict[str, str]
    names: frozenset[str]


def run_commands(release: str, folder: Path, namesrv: str, broker: str, cluster: str) -> ToolRun:
    """Run every command that the release has."""
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
    done = subprocess.run(
        [
            "java",
            "-Xmx256m",
            "-Djava.security.manager=allow",
            *java_peer.SHORT_LIFE,
            *java_peer.archived(class_path),
        ]
        + [f"-Duser.home={java_peer.HOME}", f"-Drocketmq.home.dir={folder}"]
        + ["-Drocketmq.client.logUseSlf4j=true", "-cp", class_path, "tidemark.peer.Tools"],
        input="".join(_line(text.format(**values).split(), namesrv) for text in texts),
        capture_output=True,
        text=True,
        check=True,
        timeout=ALL_WITHIN_S,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    ran = [line for line in lines if line[0] == "RAN"]
    return ToolRun(
        {text: base64.b64decode(line[2]).decode() for text, line in zip(texts, ran, strict=True)},
        frozenset(line[1] for line in lines if line[0] == "HAS"),
    )


def _line(words: list[str], namesrv: str) -> str:
    """A line of Tools.java's input."""
    limit_s = ENDLESS_S.get(words[0], COMMAND_WITHIN_S)
    return "\t".join([str(limit_s), *words, *([] if "-n" in words else ["-n", namesrv])]) + "\n"


def outcome(printed: str) -> str:
    """`done`, the code of the answer that ended it, `fails` when the tool itself did, `runs` when it did not end."""
    code = CODE.search(printed)
    if code is not None:
        return code[1]
    if printed.endswith("still running"):
        return "runs"
    return "fails" if "SubCommandException" in printed or "ended the process" in printed else "done"
