"""Messages that brokers hold back: counted by level against running brokers, judged from literal answers."""

from __future__ import annotations

import pytest

from brokerd.remoting.body.topic import TopicOffset, TopicStatsTable
from console.broker import findings, selectors
from console.broker.models import BrokerSample, BrokerSurvey
from console.broker.survey import held_back
from console.broker.survey.connections import WaitingLevel
from console.brokers.mqadmin import Message, MessageQueue, SendResult
from console.lag.models import BrokerRow
from console.text import Text
from tests.console.broker.conftest import NAME, Pair
from tests.console.operation.live_cluster import wait_for

HOUR_MS = 3_600_000
AT_MS = 1_000 * HOUR_MS
LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def stats(topic: str, *queues: tuple[int, int, int]) -> TopicStatsTable:
    """Queues 0, 1, … as (min, max, newest write)."""
    return TopicStatsTable(
        {
            MessageQueue(topic, "b", number): TopicOffset(low, high, newest_ms)
            for number, (low, high, newest_ms) in enumerate(queues)
        }
    )


def surveyed(**fields: object) -> BrokerSurvey:
    return BrokerSurvey(
        cluster=NAME, broker_name="b", config={"messageDelayLevel": LEVELS}, held_back_at_ms=AT_MS, **fields
    )


def test_delayed_messages_of_a_running_broker_are_in_no_lag_and_counted(pair: Pair) -> None:
    pair.create_topic("orders")
    addr = pair.a.address
    delays = ["18"] * 5 + ["17"] * 2 + ["1"]
    sent = pair.admin.send_many(addr, [(Message("orders", b"x", {"DELAY": one}), 0) for one in delays])
    assert all(isinstance(one, SendResult) for one in sent)
    wait_for(lambda: pair.admin.max_offset(addr, "orders", 0) == 1, "the one of level 1", within_s=30)
    pair.collect()
    pair.survey()
    view = selectors.broker(NAME, "broker-a")
    assert view is not None
    held = view.held_back
    assert [(one.level, one.delay_ms, one.waiting) for one in held.levels] == [
        (17, HOUR_MS, 2),
        (18, 2 * HOUR_MS, 5),
    ]
    assert (held.delayed, held.delayed_reason, held.read_at_ms) == (7, "", pair.now_ms)
    # It takes no transactions and no messages for a set time: a zero it may well tell.
    assert (held.half, held.half_reason, held.timed, held.timed_reason) == (0, "", 0, "")
    assert held.late == [] and BrokerSample.objects.get(broker_name="broker-a").delayed == 7
    other = selectors.broker(NAME, "broker-b")
    assert other is not None and (other.held_back.delayed, other.held_back.levels) == (0, [])
    pair.a.kill()
    pair.collect()
    pair.survey()
    view = selectors.broker(NAME, "broker-a")
    assert view is not None and (view.held_back.delayed, view.held_back.half) == (None, None)
    assert view.held_back.delayed_reason and view.held_back.half_reason


def test_a_level_that_never_delivered_is_not_empty() -> None:
    """4.x lists only levels that advanced: of the others everything waits."""
    table = stats("SCHEDULE_TOPIC_XXXX", (4, 10, 5), (0, 0, 0), (2, 9, 7), (3, 8, 9))
    assert held_back.levels(table, {1: 10, 4: 1}) == [
        WaitingLevel(level=3, waiting=7, newest_ms=7),
        WaitingLevel(level=4, waiting=5, newest_ms=9),
    ]


@pytest.mark.parametrize(("ended", "at_most"), [(None, 9), (3, 9), (8, 7), (15, 0), (16, 0)])
def test_half_messages_are_an_upper_bound(ended: int | None, at_most: int) -> None:
    assert held_back.half_messages(stats("RMQ_SYS_TRANS_HALF_TOPIC", (6, 15, 1)), ended) == at_most


def test_a_level_that_nobody_delivers_is_a_finding() -> None:
    def told(level: int, newest_ms: int) -> dict[str, int]:
        return {"level": level, "waiting": 3, "newest_ms": newest_ms}

    late, due = told(5, AT_MS - 2 * HOUR_MS), told(18, AT_MS - 90 * 60_000)
    survey = surveyed(delayed=[late, due], half=0, timed={"orders": 4, "rmq_sys_REVIVE_LOG_c": 9, "old": 0})
    found = held_back.held_back(survey, {"timerReadBehind": "120"})
    assert [(one.level, one.late_ms) for one in found.levels] == [(5, 2 * HOUR_MS - 60_000), (18, None)]
    assert (found.timed, found.timed_topics) == (4, [("orders", 4)])
    row = BrokerRow(broker_name="b", answered=True, runtime={"timerReadBehind": "120"})
    view = selectors.BrokerView(row, survey, [], [], [], [])
    assert [(one.status, one.title) for one in findings.findings(view)] == [
        ("STALLED", "Delay level 5 is not delivered"),
        ("FALLING_BEHIND", "The timer is 2 m late"),
    ]


def test_what_was_not_told_is_unknown_with_its_reason() -> None:
    found = held_back.held_back(
        surveyed(
            delayed=None, delayed_reason=Text("no answer"), half=None, half_reason=Text("no permission")
        ),
        {"timerCongestNum": "7"},
    )
    assert (found.delayed, found.delayed_reason, found.half, found.half_reason) == (
        None,
        "no answer",
        None,
        "no permission",
    )
    assert found.timed is None  # 7 with POP's own check points among them
    assert held_back.held_back(surveyed(timed=None), {"timerCongestNum": "0"}).timed == 0
    silent = surveyed(timed=None, runtime_reason="it does not answer", timed_reason="it does not answer")
    assert held_back.held_back(silent, {"timerCongestNum": "0"}).timed is None
    before = held_back.held_back(None, {})
    assert (before.delayed, before.timed, before.half) == (None, None, None)
    assert before.delayed_reason == before.half_reason == "the first survey is not done yet"
    assert held_back.delays_ms({"messageDelayLevel": "1s 2m nonsense 3h"}) == [1_000, 120_000, 3 * HOUR_MS]


@pytest.mark.parametrize(
    ("offset_ms", "title"),
    [
        (-70_000, "Its clock is 1 m 10 s behind this machine"),
        (3_000, "Its clock is 3 s ahead of this machine"),
        (0, ""),
        (None, ""),
    ],
)
def test_a_clock_that_is_off_is_a_finding_and_makes_no_level_late(offset_ms: int | None, title: str) -> None:
    newest_ms = AT_MS - 5_000 + (offset_ms or 0)
    told = [{"level": 1, "waiting": 3, "newest_ms": newest_ms}]
    row = BrokerRow(broker_name="b", answered=True, clock_offset_ms=offset_ms)
    view = selectors.BrokerView(row, surveyed(delayed=told, half=0, timed={}), [], [], [], [])
    assert [one.title for one in findings.findings(view)] == ([title] if title else [])
    assert view.held_back.late == []


def test_a_broker_that_takes_no_messages_is_a_finding_with_its_reason() -> None:
    row = BrokerRow(
        broker_name="b", answered=True, runtime={"storeRefusal": "the commit log could not be flushed"}
    )
    view = selectors.BrokerView(row, surveyed(delayed=[], half=0, timed={}), [], [], [], [])
    assert [(one.status, one.title, one.text) for one in findings.findings(view)] == [
        ("STALLED", "The broker does not accept messages", "the commit log could not be flushed")
    ]
