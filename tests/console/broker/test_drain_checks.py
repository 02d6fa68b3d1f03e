"""May a broker be stopped: each check with a fault that it must find, and unknown is no yes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.broker import drain_checks as checks
from console.broker import selectors
from console.broker.drain_checks import Check, CheckState
from console.broker.models import BrokerSample, BrokerSurvey, NameServerRow
from console.broker.survey.connections import Replica, as_kept
from console.lag.models import BrokerRow
from console.lag.rows.queue_row import TopicQueueRow
from console.text import Text
from tests.support import sample_queues, sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
YES, NOT_YET, UNKNOWN = CheckState.YES, CheckState.NOT_YET, CheckState.UNKNOWN
NAMES = "in", "room", "unread", "delayed", "half", "slave", "routes"


def broker(name: str, **fields: Any) -> None:
    values = {"addr": f"{name}:1", "answered": True, "in_rate": 0.0, "version": "V5_3_3"}
    BrokerRow.objects.create(cluster="local", broker_name=name, **{**values, **fields})


def survey(name: str, **fields: Any) -> None:
    values: dict[str, Any] = {
        "addr": f"{name}:1",
        "config": {"brokerPermission": "6", "transactionCheckInterval": "60000", "transactionCheckMax": "15"},
        "producers": [],
        "replicas": [],
        "delayed": [],
        "timed": {},
        "half": 0,
        "held_back_at_ms": sample_rows.NOW_MS,
    }
    BrokerSurvey.objects.create(cluster="local", broker_name=name, **{**values, **fields})


def name_server(addr: str, **fields: Any) -> None:
    values = {"answered": True, "brokers": {name: {"0": "h:1"} for name in ("broker-a", "broker-b")}}
    NameServerRow.objects.create(cluster="local", addr=addr, **{**values, **fields})


@pytest.fixture
def quiet() -> None:
    """broker-a, drained and read to its end, beside broker-b."""
    sample_rows.cluster()
    for name in ("broker-a", "broker-b"):
        broker(name)
        survey(name)
    name_server("ns-1:9876", unwritable=["broker-a"])
    sample_rows.queue_row("billing", 0, lag=0, committed_offset=2_000)


def found(name: str = "broker-a") -> dict[str, Check]:
    servers = selectors.name_servers("local")
    views = selectors.broker_views("local", servers=servers)
    view = next(one for one in views if one.name == name)
    return dict(zip(NAMES, checks.drain_checks("local", view, views, servers), strict=True))


def states() -> dict[str, CheckState]:
    return {name: check.state for name, check in found().items()}


def test_a_drained_broker_that_everything_left_may_be_stopped(quiet: None) -> None:
    assert states() == {**dict.fromkeys(NAMES, YES), "slave": CheckState.NONE}
    assert not any(check.blocks for check in found().values())


def test_messages_that_arrive_are_not_over(quiet: None) -> None:
    BrokerRow.objects.filter(broker_name="broker-a").update(in_rate=0.02)
    check = found()["in"]
    assert (check.state, check.now) == (NOT_YET, "< 0.1 /s") and "retries of consumers" in check.why
    BrokerRow.objects.filter(broker_name="broker-a").update(in_rate=None)
    check = found()["in"]
    assert (check.state, check.why) == (CheckState.UNKNOWN, "it has no rate of a minute yet")


def topic_on(*brokers: str, in_rate: float | None, topic: str = "orders") -> None:
    sample_rows.topic_row(topic, brokers=list(brokers))
    rows = [TopicQueueRow(topic, name, 0, 0, 9, in_rate=in_rate) for name in brokers]
    sample_queues.save("local", *rows)


def test_room_is_what_the_others_are_known_to_take(quiet: None) -> None:
    topic_on("broker-a", "broker-b", in_rate=30.0)
    BrokerRow.objects.filter(broker_name="broker-b").update(in_rate=50.0)
    sample = {"cluster": "local", "broker_name": "broker-b"}
    BrokerSample.objects.create(**sample, at_ms=1, in_rate=79.0)
    assert found()["room"].state is UNKNOWN
    assert found()["room"].why == "broker-b would take 80 /s, measured up to 79 /s"
    BrokerSample.objects.create(**sample, at_ms=2, in_rate=81.0)
    assert (found()["room"].state, found()["room"].now) == (YES, "at most +30 /s")


def test_the_traffic_of_a_topic_spreads_over_its_other_brokers(quiet: None) -> None:
    broker("broker-c")
    topic_on("broker-a", "broker-b", "broker-c", in_rate=30.0)
    topic_on("broker-a", "broker-b", in_rate=2.0, topic="stock")
    assert checks.moved_load("local", "broker-a", ["broker-b", "broker-c"])[0] == {
        "broker-b": 17.0,
        "broker-c": 15.0,
    }


def test_a_topic_without_another_broker_has_no_room(quiet: None) -> None:
    topic_on("broker-a", in_rate=0.5)
    check = found()["room"]
    assert check.state is NOT_YET and "no other broker that takes messages has orders" in check.why


@pytest.mark.parametrize("fault", ["silent", "drained", "read-only", "full", "slave"])
def test_a_broker_that_takes_no_messages_is_no_room(quiet: None, fault: str) -> None:
    rows, surveys = (model.objects.filter(broker_name="broker-b") for model in (BrokerRow, BrokerSurvey))
    if fault == "silent":
        rows.update(answered=False)
    elif fault == "drained":
        NameServerRow.objects.update(unwritable=["broker-a", "broker-b"])
    elif fault == "read-only":
        surveys.update(config={"brokerPermission": "4"})
    elif fault == "full":
        surveys.update(filling="FULL")
    else:
        rows.update(broker_id=1)
    assert (found()["room"].state, found()["room"].now) == (NOT_YET, "no broker")


def test_unread_messages_name_the_group_that_needs_longest(quiet: None) -> None:
    sample_rows.queue_row("slow", 1, lag=600, out_rate=2.0)
    sample_rows.queue_row("fast", 2, lag=900, out_rate=100.0)
    check = found()["unread"]
    assert (check.state, check.now) == (NOT_YET, "1,500")
    assert check.why == "2 groups; at its speed slow is the last, in 5 m"
    sample_rows.queue_row("stopped", 3, lag=1, out_rate=0.0)
    assert found()["unread"].why == "3 groups; stopped reads nothing here now"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"lag": None}, UNKNOWN),
        ({"lag": 0, "lag_lower_bound": True}, UNKNOWN),  # members of a POP group hold messages
        ({"lag": None, "min_offset": 7, "max_offset": 7}, YES),  # nothing is there
    ],
)
def test_unread_is_a_guess_while_a_position_is_unknown(
    quiet: None, fields: dict[str, Any], state: CheckState
) -> None:
    sample_rows.queue_row("nobody", 1, **{"time_lag_ms": None, **fields})
    check = found()["unread"]
    assert check.state is state and check.now == ("≥ 0" if state is UNKNOWN else "0")


def surveyed(**fields: Any) -> None:
    BrokerSurvey.objects.filter(broker_name="broker-a", broker_id=0).update(**fields)


def test_delayed_messages_are_still_to_come(quiet: None) -> None:
    level = {"level": 2, "waiting": 12, "newest_ms": sample_rows.NOW_MS}
    surveyed(delayed=[level], timed={"orders": 3}, config={"messageDelayLevel": "1s 2h"})
    check = found()["delayed"]
    assert (check.state, check.now) == (NOT_YET, "15")
    assert check.why == "delivered within 2 h at the latest, 3 wait for a set time"
    surveyed(delayed=[], timed=None, timed_reason=Text("no answer"))
    assert (found()["delayed"].state, found()["delayed"].why) == (UNKNOWN, "no answer")
    BrokerRow.objects.filter(broker_name="broker-a").update(version="V4_9_7")  # has no timers
    assert found()["delayed"].state is YES


def test_half_messages_are_open_transactions(quiet: None) -> None:
    surveyed(half=3)
    check = found()["half"]
    assert (check.state, check.now) == (NOT_YET, "≤ 3") and "every 1 m, at most 15 times" in check.why
    surveyed(half=None, half_reason=Text("no answer"))
    assert (found()["half"].state, found()["half"].now, found()["half"].why) == (UNKNOWN, "", "no answer")


@pytest.mark.parametrize(
    ("replica", "state"),
    [
        (Replica(addr="s:2", behind_bytes=0, in_sync=True, bytes_per_s=0), YES),
        (Replica(addr="s:2", behind_bytes=4_000, in_sync=True, bytes_per_s=0), NOT_YET),
        (Replica(addr="s:2", behind_bytes=0, in_sync=False, bytes_per_s=0), NOT_YET),
        (None, UNKNOWN),
    ],
)
def test_a_slave_must_have_everything(quiet: None, replica: Replica | None, state: CheckState) -> None:
    survey("broker-a", broker_id=1, addr="s:1")
    surveyed(replicas=as_kept([replica]) if replica else [])
    assert found()["slave"].state is state


def test_every_name_server_must_have_dropped_it(quiet: None) -> None:
    name_server("ns-2:9876", answered=False)
    check = found()["routes"]
    assert (check.state, check.now, check.target) == (UNKNOWN, "1 of 2", "2 of 2")
    assert check.why == "no answer from ns-2:9876"
    NameServerRow.objects.filter(addr="ns-2:9876").update(answered=True)
    assert (found()["routes"].state, found()["routes"].why) == (NOT_YET, "still offered by ns-2:9876")


def test_a_silent_broker_says_yes_to_nothing_of_its_own(quiet: None) -> None:
    BrokerRow.objects.filter(broker_name="broker-a").update(answered=False, reason=Text("connection refused"))
    own = {name: check for name, check in found().items() if name not in ("slave", "routes")}
    assert {check.state for check in own.values()} == {UNKNOWN}
    assert all("connection refused" in check.why for check in own.values())


def test_before_the_first_survey_nothing_of_it_is_known(quiet: None) -> None:
    BrokerSurvey.objects.filter(broker_name="broker-a").delete()
    NameServerRow.objects.all().delete()
    assert {name for name, state in states().items() if state is UNKNOWN} == {
        "delayed",
        "half",
        "slave",
        "routes",
    }


def test_a_check_that_says_nothing_blocks_too() -> None:
    check = Check(Text(), Text(), Text(), UNKNOWN, Text())
    assert check.blocks and not replace(check, state=CheckState.NONE).blocks
