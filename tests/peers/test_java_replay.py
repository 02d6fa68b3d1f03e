"""Dead letters replayed to the failed group reach its unmodified Java consumer under their original topic, once, and
nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from console.brokers.mqadmin import close_admins
from console.operation import selectors, services
from console.operation.job import runner
from tests.console.deadletter.letters import GROUP, RETRY, TOPIC, end, group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.peers.test_java_client import has_started
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import JavaPeer

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.django_db(databases=["default", "metrics"]),
]
EXPECTED = {f"k{number}": f"letter {number}" for number in range(20)}
PARAMS = {"target": "failed_group"}


def test_it_delivers_the_copies_to_that_group_alone(
    peer: Callable[..., JavaPeer], broker: BrokerProcess
) -> None:
    live = LiveCluster(broker).register()
    try:
        group_with_topics(live)
        write_letters(live, len(EXPECTED))
        member = peer("consume", topic=TOPIC, group=GROUP, instance="member", seconds=240)
        other = peer("consume", topic=TOPIC, group="audit", instance="other", seconds=240)
        for each in (member, other):
            each.wait_for(has_started, "start of a consumer")
        plan = services.create_plan("dead_letter_replay", live.name, GROUP, PARAMS, None)
        assert (plan.messages, plan.blocked) == (20, "")
        job = services.apply_plan(plan.id, None, plan.confirm_text)
        runner.run(job.id, "worker-1")
        assert selectors.job(job.id).state == "SUCCEEDED"
        member.wait_for(lambda one: {message.key for message in one.consumed} >= EXPECTED.keys(), "20 copies")
        # A consumer commits what it has taken, so behind this nothing of the replay is on its way any more.
        wait_for(lambda: live.committed(GROUP, RETRY) == {0: len(EXPECTED)}, "the commit", within_s=120)
        assert Counter(message.key for message in member.consumed) == Counter(EXPECTED.keys()), "each once"
        assert {message.key: message.body for message in member.consumed} == EXPECTED
        assert (other.consumed, end(live, TOPIC)) == ([], 0), "other groups see nothing"
        again = services.create_plan("dead_letter_replay", live.name, GROUP, PARAMS, None)
        assert (again.messages, again.blocked) == (0, "No dead letter is left to send.")
        assert end(live, RETRY) == len(EXPECTED)
    finally:
        close_admins()
