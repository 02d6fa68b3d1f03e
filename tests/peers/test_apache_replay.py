"""A replay of dead letters on Apache RocketMQ 5.3.3 whose broker is killed in between: no letter twice, none lost."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from brokerd.remoting.errors import SystemError_
from console.brokers.mqadmin import BrokerUnavailable, Message, SendResult
from console.deadletter import selectors
from console.deadletter.models import ReplayLedger
from console.deadletter.replay.send import Sender
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.job import runner
from console.operation.models import Job
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import ApacheWorld

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
TOPIC, GROUP = "surviving", "survivors"
DLQ, RETRY = f"%DLQ%{GROUP}", f"%RETRY%{GROUP}"
LETTERS = 2_000


@pytest.fixture
def letters(world: ApacheWorld) -> ApacheWorld:
    """Dead letters ``k<n>`` on broker-a, as a broker writes them."""
    world.create_group(GROUP)
    for topic in (TOPIC, RETRY, DLQ):
        world.create_topic(topic, queues=1)
    batch = [(Message(DLQ, b"letter %d" % number, letter(number)), 0) for number in range(LETTERS)]
    for result in world.admin.send_many(world.cluster.addrs["broker-a"], batch):
        assert isinstance(result, SendResult), result
    return world


def letter(number: int) -> dict[str, str]:
    return {
        "KEYS": f"k{number}",
        "UNIQ_KEY": f"7F000001{number:024d}",
        "RETRY_TOPIC": TOPIC,
        "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{number:016d}",
    }


def copies(world: ApacheWorld) -> Counter[str]:
    """Key → how many copies of that letter are in the retry topic."""
    found: Counter[str] = Counter()
    for addr in world.cluster.addrs.values():
        offset = 0
        while messages := world.admin.pull(addr, RETRY, 0, offset).messages:
            found.update(message.keys for message in messages)
            offset = messages[-1].queue_offset + 1
    return found


def answers(world: ApacheWorld) -> bool:
    """The console's own client pauses after an address refused it; Apache's broker has no figures at first."""
    try:
        return all(world.admin.runtime_info(addr) for addr in world.cluster.addrs.values())
    except (BrokerUnavailable, SystemError_):
        return False


def ledger(job: Job) -> dict[str, int]:
    return {state: count for state, count in selectors.ledger_counts(job.plan_id).items() if count}


def test_it_resumes_after_the_broker_was_killed(
    letters: ApacheWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, left = letters, [3]
    original = Sender.exchange

    def exchange(self: Sender, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            threading.Thread(target=world.cluster.brokers[0].kill).start()
        return original(self, *arguments)

    plan = world.plan("dead_letter_replay", GROUP, {"target": "failed_group", "rate_per_s": 4_000})
    assert (plan.messages, plan.blocked) == (LETTERS, "")
    job = operation_services.apply_plan(plan.id, world.actor, plan.confirm_text)
    with monkeypatch.context() as patched:
        patched.setattr(Sender, "exchange", exchange)
        runner.run(job.id, "worker-1")
    job = operation_selectors.job(job.id)
    assert job.state == "RUNNING", "it waits for the broker"
    assert any("127.0.0.1" in event.text and "trying again in" in event.text for event in job.events.all())
    open_then = ledger(job)
    assert 0 < open_then["SENT"] < LETTERS and open_then["PENDING"] > 0
    world.cluster.start_brokers()
    wait_for(lambda: answers(world), "both brokers")
    for attempt in range(2, 6):  # the route of the topic comes a little later than the broker
        Job.objects.filter(pk=job.id).update(lease_until=None)
        runner.run(job.id, f"worker-{attempt}")
        job = operation_selectors.job(job.id)
        if job.is_final:
            break
    assert (job.state, job.error) == ("SUCCEEDED", "")
    found = {key: job.result[key] for key in ("matched", "sent", "skipped", "failed", "unknown", "pending")}
    assert found["matched"] == LETTERS == found["sent"] + found["skipped"] + found["failed"]
    assert (found["pending"], ledger(job).get("PENDING", 0)) == (0, 0)
    unknown = set(
        ReplayLedger.objects.filter(plan_id=plan.id, state="UNKNOWN").values_list("keys", flat=True)
    )
    assert len(unknown) == found["unknown"]
    sent = copies(world)
    certain = {key: count for key, count in sent.items() if key not in unknown}
    assert len(certain) == LETTERS - len(unknown) and set(certain.values()) == {1}
