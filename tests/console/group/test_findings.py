"""What is wrong with a group, in words."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from console.group import findings as group_findings
from console.group.findings import Finding, subscription_words
from console.group.pauses import GroupPauses, Pause
from console.group.selectors import Reported
from console.lag.models import ClientRow, GroupRow
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.popped import HeldQueue
from console.lag.rows.queue_row import QueueRow
from console.operation.models import Job, Plan
from console.text import Text
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in


def group(**fields: Any) -> GroupRow:
    return GroupRow(**{"group": "g", "status": "OK", "clients": 1, "lag": 5, **fields})


def queue(queue_id: int, **fields: Any) -> QueueRow:
    return QueueRow(
        **{
            "group": "g",
            "topic": "orders",
            "broker_name": "broker-a",
            "queue_id": queue_id,
            "status": "OK",
            "owner": "c1",
            "lag": 5,
            **fields,
        }
    )


def client(name: str, expression: str = "*", queues: list[HeldQueue] | None = None) -> Reported:
    return Reported(name, "", {"orders": {"expression": expression}}, queues)


def findings(row: GroupRow, queues: list[QueueRow], *args: Any, **more: Any) -> list[Finding]:
    return group_findings.findings(row, ColumnRows.of(QueueRow, queues), *args, **more)


def titles(*args: Any) -> list[str]:
    return [finding.title for finding in findings(*args)]


def test_it_is_silent_about_a_healthy_group() -> None:
    assert findings(group(), [queue(0)], [client("c1")]) == []


def test_a_group_that_keeps_up_and_falls_behind_names_the_queue_that_decides() -> None:
    reason = Text("%(queue)s: lag went from 5 to 9", queue="orders · broker-a · 3")
    row = group(status="FALLING_BEHIND", in_rate=100.0, out_rate=100.0, reason=reason)
    (found,) = findings(row, [], [])
    assert found.title == "At least one queue falls behind"
    assert found.text == (
        "Its queues together are consumed about as fast as messages arrive. "
        "The worst queue decides: orders · broker-a · 3: lag went from 5 to 9."
    )
    row.in_rate = None
    (found,) = findings(row, [], [])
    assert found.text == "The worst queue decides: orders · broker-a · 3: lag went from 5 to 9."


def test_it_names_the_stalled_queue_and_who_holds_it() -> None:
    (found,) = findings(group(status="STALLED"), [queue(3, status="STALLED", lag=1000)], [])
    assert found.title == "broker-a · 3 is stalled"
    assert found.text.startswith("1,000 messages waiting there. Owner: c1.")


def test_it_counts_what_it_does_not_name() -> None:
    rows = [queue(n, status="UNKNOWN", lag=None) for n in range(8)]
    assert titles(group(), rows, []) == ["broker-a · 0, broker-a · 1, broker-a · 2 and 5 more are unknown"]


def test_it_names_no_queue_twice() -> None:
    """Queues of several topics have the same numbers."""
    again = queue(0, status="UNKNOWN", lag=None, topic="%RETRY%g")
    rows = [queue(0, status="UNKNOWN", lag=None), again]
    assert titles(group(), rows, []) == ["broker-a · 0 and %RETRY% broker-a · 0 are unknown"]
    rows[1] = queue(0, status="UNKNOWN", lag=None, topic="refunds")
    assert titles(group(), rows, []) == ["orders broker-a · 0 and refunds broker-a · 0 are unknown"]


def test_it_says_why_a_group_is_unknown_whose_queues_are_read() -> None:
    waiting = group(status="UNKNOWN", clients=None, reason=Text("messages wait, nothing was consumed yet"))
    (found,) = findings(waiting, [queue(0)], [])
    assert (found.status, found.title) == ("UNKNOWN", "The status is not known yet")
    assert (
        found.text == "Reason: messages wait, nothing was consumed yet. Clients are queried about every 30 s."
    )


def test_it_counts_messages_where_no_offset_is_committed() -> None:
    never = {"status": "NEVER_COMMITTED", "lag": None}
    rows = [
        queue(0),
        queue(1, min_offset=5, max_offset=9, **never),
        queue(2, min_offset=3, max_offset=3, **never),
    ]
    (found,) = findings(group(status="NEVER_COMMITTED"), rows, [])
    assert (found.status, found.title) == ("NEVER_COMMITTED", "No offset is committed on broker-a · 1")
    assert found.text.startswith("At least 4 messages stored there, not part of any lag.")


def test_it_puts_the_worst_first() -> None:
    rows = [queue(0, status="UNKNOWN"), queue(1, status="LOST"), queue(2, status="STALLED")]
    assert [f.status for f in findings(group(clients=0), rows, [])] == [
        "LOST",
        "STALLED",
        "OFFLINE",
        "UNKNOWN",
    ]


def test_it_sees_clients_that_subscribe_differently() -> None:
    members = [client("c1", "paid"), client("c2", "paid"), client("c3", "paid || refunded")]
    assert titles(group(), [queue(0)], members) == ["Clients subscribe in 2 different ways"]


def test_it_does_not_call_a_queue_free_while_a_client_is_silent() -> None:
    free = queue(1, owner="")
    assert titles(group(), [free], [client("c1", queues=None)]) == []
    assert titles(group(), [free], [client("c1", queues=[HeldQueue("orders", "broker-a", 0)])]) == [
        "broker-a · 1 without an owner"
    ]


def test_it_sees_clients_without_a_queue() -> None:
    assert titles(group(), [queue(0)], [client("c1", queues=[])]) == ["1 client without a queue"]


def test_it_says_how_fast_the_backlog_grows() -> None:
    (found,) = findings(group(status="FALLING_BEHIND", in_rate=100.0, out_rate=80.0), [], [])
    assert found.title == "The group consumes 20 % less than arrives"
    assert "grows by 20/s" in found.text


def test_it_leaves_the_retry_topic_out_of_subscriptions() -> None:
    words = subscription_words(
        ClientRow(subscription={"%RETRY%g": {"expression": "*"}, "b": {"expression": "x"}, "a": {}})
    )
    assert words == "a: *, b: x"


def test_it_leads_to_the_message_at_which_a_queue_stands() -> None:
    rows = [
        queue(3, status="STALLED", committed_offset=1204, time_lag_ms=9),
        queue(4, status="STALLED", committed_offset=7, time_lag_ms=8),
        queue(5, status="STALLED", committed_offset=None),
    ]
    (found,) = findings(group(status="STALLED"), rows, [])
    assert (found.head_place, found.head_name) == ("broker-a:3:1204", "broker-a-3-1204")
    (unread,) = findings(group(), [queue(0, status="UNKNOWN", committed_offset=5)], [])
    assert (unread.head, unread.head_place) == (None, "")


def test_it_warns_before_retention_reaches_the_unread() -> None:
    soon = group(time_to_loss_ms=7_800_000, time_to_loss_queue="orders · broker-a · 3")
    (found,) = findings(soon, [queue(0)], [client("c1")])
    assert (found.status, found.title) == ("LOST", "Unread messages will be lost in about 2 h 10 m")
    assert "retention deletes messages of orders · broker-a · 3 before" in found.text
    assert titles(group(time_to_loss_ms=86_400_000), [], []) == []
    assert titles(group(time_to_loss_ms=1_000, time_to_loss_lower_bound=True), [], []) == []


def test_it_says_when_more_clients_help_and_when_not() -> None:
    slow = group(
        status="FALLING_BEHIND", in_rate=10.0, out_rate=5.0, consumers_needed=3, effective_queues=4.0
    )
    (found,) = findings(slow, [queue(n) for n in range(4)], [])
    assert found.text.endswith(
        "At the current speed, 3 clients are needed to keep up and to clear the lag within 15 min."
    )
    slow.consumers_needed, slow.effective_queues, slow.worst_queue = 1, 1.2, "orders · broker-a · 2"
    pace, uneven = findings(slow, [queue(n) for n in range(4)], [])
    assert "it takes" not in pace.text
    assert uneven.text.startswith("The lag is on about 1.2 of 4 queues, most on orders · broker-a · 2.")


def test_it_says_at_least_where_a_part_is_not_known() -> None:
    offline = group(clients=0, status="OFFLINE", lag=1_200, lag_lower_bound=True)
    (found,) = findings(offline, [queue(0)], [])
    assert found.text.startswith("At least 1,200 messages wait. No client of this group is online")
    rows = [queue(0, status="STALLED", lag=7), queue(1, status="STALLED", lag=None)]
    assert findings(group(status="STALLED"), rows, [])[0].text.startswith(
        "At least 7 messages waiting there."
    )


def test_it_says_paused_and_not_stalled() -> None:
    pauses = GroupPauses([Pause("orders", ("broker-a",), 1_000, "maria", "op-1", 2_000)])
    rows = [
        queue(0, status="STALLED", lag=7),
        queue(1, status="STALLED", topic="refunds"),
        queue(2, lag=None),
    ]
    found = findings(group(status="FALLING_BEHIND", in_rate=9.0, out_rate=1.0), rows, [], pauses)
    assert [(each.status, each.title) for each in found] == [
        ("STALLED", "broker-a · 1 is stalled"),
        ("STOPPED", "Paused on orders"),
    ]
    assert found[1].text == "At least 7 messages wait until the group is resumed. Done by maria."
    assert found[1].since_ms == 1_000


def test_it_says_that_a_paused_topic_is_read_all_the_same() -> None:
    pauses = GroupPauses([Pause("", ("broker-a",), 1_000, "", "", 2_000)])
    finishing, moving = queue(0, last_commit_ms=200_000), queue(1, last_commit_ms=400_000)
    found = findings(group(), [finishing, moving], [], pauses)
    assert [each.title for each in found] == [
        "The whole group is stopped",
        "broker-a · 1 is consumed although paused",
    ]
    assert found[0].text == "10 messages wait until the group is resumed. Not done by this console."


def test_a_status_that_needs_attention_has_a_finding() -> None:
    """Whatever its queues show: the badge and the findings agree."""
    for status in ("LOST", "STALLED", "STOPPED", "INVALID", "FALLING_BEHIND", "SKIPPED", "REWOUND"):
        row = group(status=status, reason=Text("the pulled offset does not move"))
        assert status in [one.status for one in findings(row, [queue(0)], [])], status
    assert titles(group(status="STALLED"), [queue(0, status="STALLED")], []) == ["broker-a · 0 is stalled"]
    assert titles(group(status="CATCHING_UP"), [queue(0)], []) == []


def test_a_broken_promise_is_a_finding_whatever_the_status() -> None:
    row = group(status="CATCHING_UP", time_lag_ms=480_000, worst_queue="broker-a · 0")
    (found,) = findings(row, [queue(0)], [], promised_ms=60_000)
    assert found.title == "Time lag exceeds the SLO of 1 m"
    assert found.text == "The oldest unread message, on broker-a · 0, has waited 8 m."
    assert findings(row, [queue(0)], [], promised_ms=480_000) == []
    assert findings(group(time_lag_ms=None), [queue(0)], [], promised_ms=1) == []


def test_a_queue_that_a_client_reports_has_an_owner_before_its_row_names_it() -> None:
    """Clients are read between rounds."""
    held = [HeldQueue("orders", "broker-a", 0)]
    rows = [queue(0, owner=""), queue(1, owner="")]
    assert titles(group(), rows, [client("c1", queues=held)]) == ["broker-a · 1 without an owner"]


@pytest.mark.django_db(databases=["default", "metrics"])
def test_a_skip_names_the_plan_that_set_the_offsets() -> None:
    sample_rows.sample()
    browser = signed_in()

    def part() -> str:
        return browser.get("/c/local/groups/billing?part=findings").content.decode()

    set_ms = sample_rows.NOW_MS
    sample_queues.change({"group": "billing"}, status="SKIPPED", reset_at_ms=set_ms)
    moment = dt.datetime.fromtimestamp(set_ms / 1000 - 5, dt.UTC)
    plans = [
        Plan.objects.create(
            kind=kind,
            cluster="local",
            subject="billing",
            created_by="alice",
            created_at=moment,
            expires_at=moment,
        )
        for kind in ("offset_change", "group_settings")
    ]
    assert "jumped ahead" in part() and "Offsets changed by" not in part()
    for plan in plans:
        Job.objects.create(
            plan=plan,
            kind=plan.kind,
            cluster="local",
            subject="billing",
            created_by="bob",
            created_at=moment,
            started_at=moment,
            finished_at=moment,
        )
    assert f"Offsets changed by plan {plans[0].id} of bob." in part()
    assert f'href="/c/local/plans/{plans[0].id}"' in part()
    sample_queues.change({"group": "billing", "queue_id": 0}, reset_at_ms=set_ms - 3_600_000)
    assert "Offsets changed by" not in part()  # of one of them something else was the last
