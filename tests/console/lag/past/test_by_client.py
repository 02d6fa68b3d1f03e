"""Which consumer was slow: figures of a window by client and by host, from owners and a history that were written."""

from __future__ import annotations

import time

import pytest

from console.group import views
from console.lag import selectors
from console.lag.models import GroupMembers, QueueOwner
from console.lag.past import by_client
from console.lag.past.by_client import ByClient, OwnerFigures
from spark.lag.local_time import HOUR_MS
from spark.lag.snapshot import Snapshot
from tests.console.lag.past.test_measures import COMMITS, HEADS, START, a_slow_hour, write
from tests.spark.lag.sample_history import rounds
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.usefixtures("local_history"),
    pytest.mark.one_database("history in files"),
]
END = START + HOUR_MS
HALF = START + HOUR_MS // 2


def own(queue_id: int, client_id: str, from_ms: int, to_ms: int | None = None, host: str = "") -> None:
    QueueOwner.objects.create(
        cluster="local",
        group="billing",
        topic="orders",
        broker_name="broker-a",
        queue_id=queue_id,
        client_id=client_id,
        host=host or f"10.0.0.{client_id[-1]}",
        from_ms=from_ms,
        to_ms=to_ms,
    )


def swept(at_ms: int) -> None:
    GroupMembers.objects.create(cluster="local", group="billing", clients=2, read_at_ms=at_ms)


def window(from_ms: int = START + 600_000, to_ms: int = END, points: int = 5) -> ByClient:
    return selectors.by_client_between("local", "billing", from_ms, to_ms, points, slo_ms=30_000)


def by_owner(rows: list[OwnerFigures]) -> dict[str, OwnerFigures]:
    return {row.owner: row for row in rows}


def test_it_names_the_slow_one_of_two_clients() -> None:
    write(a_slow_hour())
    own(0, "app-1", START)
    own(1, "app-2", START)
    swept(END)
    found = window()
    slow, fast = found.clients
    assert (slow.owner, slow.host, slow.queues, slow.consumed) == ("app-1", "10.0.0.1", 1, 6_000)
    assert (fast.owner, fast.host, fast.queues, fast.consumed) == ("app-2", "10.0.0.2", 1, 18_000)
    assert (slow.breach_ms, fast.breach_ms) == (3_000_000, 0)
    assert slow.message_latency_p95_ms is not None
    assert abs(slow.message_latency_p95_ms - 60_000) <= 500
    assert fast.message_latency_p95_ms == 0
    assert (slow.lag, slow.lag_at_ms, fast.lag) == (120, END - 5_000, 0)
    assert slow.out_rate == pytest.approx(2.0)
    assert (slow.coverage_pct, slow.owned_ms) == (100.0, 3_000_000)
    assert (found.changes, found.swept_ms, found.step_ms) == (0, END, 600_000)
    assert slow.steps.consumed == [1_200] * 5
    assert slow.steps.lag == [120] * 5
    assert [row.owner for row in found.hosts] == ["10.0.0.1", "10.0.0.2"]


def test_an_owner_that_changes_mid_window_shares_the_queue_by_time() -> None:
    write(a_slow_hour())
    own(0, "app-1", START, HALF)
    own(0, "app-2", HALF)
    own(1, "app-2", START, HALF)
    own(1, "app-3", HALF)
    swept(END)
    found = by_owner(window().clients)
    # 20 minutes of the 50 come before the change, 30 after: 240 and 360 rounds
    assert (found["app-1"].consumed, found["app-1"].queues, found["app-1"].lag) == (2_400, 0, None)
    assert found["app-2"].consumed == 240 * 30 + 360 * 10
    assert found["app-3"].consumed == 360 * 30
    assert (found["app-1"].last_ms, found["app-3"].first_ms) == (HALF, HALF)
    assert (found["app-1"].owned_ms, found["app-3"].owned_ms) == (1_200_000, 1_800_000)
    assert (found["app-1"].breach_ms, found["app-2"].breach_ms) == (1_200_000, 1_800_000)
    assert (found["app-2"].lag, found["app-2"].queues, found["app-2"].queues_max) == (120, 1, 1)
    assert found["app-1"].steps.consumed == [1_200, 1_200, None, None, None]


def test_the_owners_share_all_that_the_group_did() -> None:
    write(a_slow_hour())
    for number, at_ms in enumerate(range(START + 601_234, END - 300_000, 301_777)):
        own(number % 2, f"app-{number % 3}", at_ms, at_ms + 250_001)
    found = window()
    whole = selectors.latency("local", "billing", START + 600_000, END, slo_ms=30_000, target=0.99)
    assert sum(row.consumed for row in found.clients) == whole.messages == 24_000
    assert [row.owner for row in found.clients][-1] == ""
    assert sum(row.consumed for row in found.hosts) == 24_000


def test_queues_without_a_known_owner_are_a_row_of_their_own() -> None:
    write(a_slow_hour())
    own(1, "app-2", START)
    swept(HALF)  # the last sweep: ten minutes later the owner is not known any more
    found = by_owner(window().clients)
    assert found["app-2"].last_ms == HALF + 600_000
    assert (found["app-2"].queues, found["app-2"].lag) == (0, None)
    assert found[""].consumed == 600 * 10 + 240 * 30
    assert (found[""].queues, found[""].host) == (2, "")


def test_a_silent_broker_is_unknown_for_its_owner() -> None:
    silent = range(360, 480)
    heads = [(0, 10 * i) if i not in silent else None for i in range(720)]
    commits = [10 * i if i not in silent else None for i in range(720)]
    past: list[Snapshot] = rounds(
        {HEADS[0]: heads, HEADS[1]: [(0, 30 * i) for i in range(720)]},
        {COMMITS[0]: commits, COMMITS[1]: [30 * i for i in range(720)]},
        start_ms=START,
    )
    write(past)
    own(0, "app-1", START)
    own(1, "app-2", START)
    swept(END)
    found = by_owner(window(points=10).clients)
    # 119 rounds and more of 600 are missing, and a sample holds until the next round says unknown
    assert found["app-1"].coverage_pct == 80.0
    assert found["app-2"].coverage_pct == 100.0
    assert found["app-1"].consumed == 6_000  # both ends of the silence are known
    assert found["app-1"].steps.consumed[5] is None
    assert found["app-1"].steps.lag[5] is None
    assert found["app-1"].status_worst == "UNKNOWN"


def test_it_refuses_a_window_with_too_many_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_client, "CHANGES_MAX", 2)
    for number in range(4):
        own(0, f"app-{number}", START + 700_000 + number, START + 700_001 + number)
    with pytest.raises(by_client.TooManyChanges, match="changed 5 times, at most 2"):
        window()


def test_it_knows_nothing_of_a_window_without_data() -> None:
    found = window()
    assert (found.clients, found.hosts, found.swept_ms, found.changes) == ([], [], None, 0)


def test_the_page_shows_it_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_rows.sample()
    now_ms = int(time.time() * 1000)
    start_ms = now_ms - 1_200_000
    history = rounds(
        {HEADS[0]: [(0, 10 * i) for i in range(240)], HEADS[1]: [(0, 30 * i) for i in range(240)]},
        {COMMITS[0]: [10 * max(0, i - 12) for i in range(240)], COMMITS[1]: [30 * i for i in range(240)]},
        start_ms=start_ms,
    )
    write(history)
    own(0, "app-1", start_ms)
    GroupMembers.objects.filter(cluster="local", group="billing").delete()
    swept(now_ms - 20_000)
    admin = signed_in()
    text = admin.get("/c/local/groups/billing?part=by-client").content.decode()
    assert "app-1</a>" in text
    assert "10.0.0.1</td>" in text
    assert "unknown owner</span>" in text
    assert "7,170</td>" in text  # 239 rounds of 30: of queue 1, whose owner is unknown
    assert "part=by-client" in admin.get("/c/local/groups/billing?tab=clients").content.decode()
    chinese = admin.get("/c/local/groups/billing?part=by-client", headers={"Accept-Language": "zh-Hans"})
    assert "Slow clients" not in chinese.content.decode()
    monkeypatch.setattr(views, "CLIENTS_SHOWN", 1)
    text = admin.get("/c/local/groups/billing?part=by-client").content.decode()
    assert "app-1</a>" in text and "unknown owner</span>" not in text
    assert "The slowest 1 of 2." in text
