"""Runtime tables of three brokers explained: both releases of Apache RocketMQ, captured, and brokerd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokerd.remoting.command import decode_frame
from console.broker.survey import runtime
from console.broker.survey.runtime import RuntimeFigure

GOLDEN = Path(__file__).parents[3] / "golden" / "wire"


def captured(release: str) -> dict[str, str]:
    path = GOLDEN / release / "28-get_broker_runtime_info-2.response.bin"
    table: dict[str, str] = json.loads(decode_frame(path.read_bytes()[4:]).body)["table"]
    return table


def by_key(table: dict[str, str]) -> dict[str, RuntimeFigure]:
    return {one.key: one for group in runtime.figures(table) for one in group.figures}


def absent_from(table: dict[str, str]) -> dict[str, str]:
    """Return what is listed as not applicable, and why."""
    groups = [group for group in runtime.figures(table) if group.is_absent]
    return {one.key: one.says for group in groups for one in group.figures}


def test_it_explains_what_a_5_x_broker_tells() -> None:
    shown = by_key(captured("5.3.3"))
    assert (shown["putTps"].text, shown["putTps"].says) == ("0.7 /s", "mean: 0.7 over 10 s, 1.1 over 1 m")
    assert (shown["putLatency99"].text, shown["putLatency99"].says) == (
        "4 ms",
        "0 of 34 in the last minute took over 10 ms",
    )
    assert shown["putMessageDistributeTime"].says == "under 1 ms: 23, 1 ms to 10 ms: 11"
    assert shown["remainHowManyDataToFlush"].text == "977 B"
    assert shown["commitLogDiskRatio"].text == "17 %"
    assert shown["remainTransientStoreBufferNumbs"].text == "no limit"
    assert shown["sendThreadPoolQueueSize"].says == "sends; the first has waited 0 ms, room for 10,000"
    assert shown["scheduleMessageOffset_3"].text == "8,8"
    assert shown["timerCongestNum"].text == "4"
    oldest = shown["earliestMessageTimeStamp"]
    assert (oldest.text, oldest.at_ms) == ("2026-11-21 09:13:43 UTC", int(oldest.raw))
    assert shown["putTps"].at_ms is None


def test_the_event_loop_is_a_figure_of_brokers_that_have_one() -> None:
    assert "loopDelay99" not in by_key(captured("5.3.3"))
    shown = by_key(
        {**captured("5.3.3"), "loopDelay50": "0.4", "loopDelay99": "21.5", "loopDelayMax": "1250.0"}
    )
    assert (shown["loopDelay99"].text, shown["loopDelay99"].tone) == ("22 ms", "warn")
    assert (shown["loopDelayMax"].text, shown["loopDelayMax"].tone) == ("1.3 s", "bad")
    assert shown["loopDelayMax"].says == "wait for the event loop in the last minute"
    assert "loopDelay50" not in shown


def test_it_says_what_a_4_x_broker_does_not_tell() -> None:
    shown = by_key(captured("4.9.7"))
    assert shown["getTransferedTps"].text == "0 /s"
    assert not any(group.name == "Delayed" for group in runtime.figures(captured("4.9.7")))
    absent = absent_from(captured("4.9.7"))
    for key in ("timerReadBehind", "ackThreadPoolQueueSize"):
        assert (shown[key].is_known, absent[key]) == (False, "reported from RocketMQ 5.0 on")
    assert absent["remainHowManyDataToCommit"] == "only with the transient store pool"


def test_what_a_broker_should_report_is_unknown_not_absent() -> None:
    table = {key: value for key, value in captured("5.3.3").items() if key != "putTps"}
    assert "putTps" not in absent_from(table)
    assert (by_key(table)["putTps"].text, by_key(table)["putTps"].says) == ("", "not reported by this broker")


def test_it_takes_no_zero_for_an_answer_where_nothing_is_measured() -> None:
    pools = {f"{pool}ThreadPoolQueueCapacity": "0" for pool in ("send", "pull", "query", "ack", "litePull")}
    table = {**captured("5.3.3"), **pools}  # as brokerd, which has no threads
    shown = by_key(table)
    absent = absent_from(table)
    assert absent.keys() == {"remainHowManyDataToCommit"} | {key.replace("Capacity", "Size") for key in pools}
    assert absent["pullThreadPoolQueueSize"] == "this broker has no such queue"
    assert shown["pullThreadPoolQueueSize"].text == ""
    assert (
        shown["pageCacheLockTimeMills"].says == "keeps up; longest turn of its single thread in the last 10 s"
    )
    assert shown["EndTransactionQueueSize"].is_known  # that one has room for 100,000


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_it_leaves_no_figure_out(release: str) -> None:
    table = captured(release)
    keys = by_key(table).keys() | runtime.HIDDEN
    left = {key for key in table if key not in keys}
    assert all(key.endswith(("Capacity", "HeadWaitTimeMills", "Morning")) for key in left), (
        left
    )  # parts of other lines


@pytest.mark.parametrize(
    ("changes", "value", "reason"),
    [
        ({}, 4.0, ""),
        ({"putLatency99": "14.2"}, 14.2, ""),
        ({"putMessageDistributeTime": "[<=0ms]:0 "}, None, "no message was written in the last minute"),
        (
            {"putMessageDistributeTime": "[<=0ms]:0 ", "putTps": "9.0 ", "putLatency99": "0.0"},
            None,
            "known after a minute",
        ),
    ],
)
def test_it_never_takes_unmeasured_for_fast(
    changes: dict[str, str], value: float | None, reason: str
) -> None:
    assert runtime.put_p99_ms({**captured("5.3.3"), "putTps": "0.0 ", **changes}) == (value, reason)


def test_it_knows_no_put_time_of_a_broker_that_tells_none() -> None:
    assert runtime.put_p99_ms({}) == (None, "this release does not report it")


@pytest.mark.parametrize(
    ("held", "expected"),
    [("0", "keeps up"), ("400", "slow, 400 ms"), ("1500", "busy, 1.5 s"), (str(2**31 - 1), ""), ("", "")],
)
def test_it_judges_the_page_cache(held: str, expected: str) -> None:
    assert runtime.page_cache_state({"pageCacheLockTimeMills": held})[0] == expected
