"""Who joined, left or restarted between two sweeps, and what of it is written down."""

from __future__ import annotations

import pytest

from console.lag.history.chronicle import client_counts, record_members, record_restarts
from console.lag.history.member_changes import MemberChange, change_of
from console.lag.models import ClientRow, GroupMembers, LagEvent
from console.lag.round.figures import BrokerFigures, BrokerKey
from console.lag.rows.topic_rows import _boot_ms


def client(client_id: str, started_at_ms: int | None = 1, address: str = "") -> ClientRow:
    return ClientRow(client_id=client_id, started_at_ms=started_at_ms, address=address, group="billing")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["10.0.0.1@7"], ["10.0.0.1@7"], MemberChange()),
        (["10.0.0.1@7"], ["10.0.0.1@7", "10.0.0.2@8"], MemberChange(joined=("10.0.0.2@8",))),
        (["10.0.0.1@7", "10.0.0.2@8"], ["10.0.0.2@8"], MemberChange(left=("10.0.0.1@7",))),
        # another process on the same host
        (["10.0.0.1@7"], ["10.0.0.1@9"], MemberChange(restarted=("10.0.0.1@9",))),
        (
            ["10.0.0.1@7", "10.0.0.2@8"],
            ["10.0.0.1@9", "10.0.0.1@10"],
            MemberChange(joined=("10.0.0.1@9",), left=("10.0.0.2@8",), restarted=("10.0.0.1@10",)),
        ),
        ([], [], MemberChange()),
    ],
)
def test_it_knows_a_restart_from_a_new_client(
    before: list[str], after: list[str], expected: MemberChange
) -> None:
    assert change_of(map(client, before), map(client, after)) == expected


@pytest.mark.parametrize(
    ("was_ms", "now_ms", "restarted"), [(5, 5, ()), (5, 6, ("a@1",)), (None, 6, ()), (5, None, ())]
)
def test_the_same_id_with_another_start_restarted(
    was_ms: int | None, now_ms: int | None, restarted: tuple[str, ...]
) -> None:
    assert change_of([client("a@1", was_ms)], [client("a@1", now_ms)]).restarted == restarted


def test_the_host_is_that_of_the_connection() -> None:
    before, after = client("app-1", address="10.0.0.1:4711"), client("app-2", address="10.0.0.1:4712")
    assert change_of([before], [after]) == MemberChange(restarted=("app-2",))


@pytest.mark.django_db(databases=["default", "metrics"])
def test_a_restart_is_written_down_though_the_number_is_the_same() -> None:
    was, now = (
        GroupMembers(cluster="local", group="billing", clients=12, read_at_ms=at) for at in (1_000, 2_000)
    )
    change = MemberChange(restarted=tuple(f"10.0.0.{n}@1" for n in range(12)))
    record_members("local", {"billing": was}, [now], {"billing": change})
    event = LagEvent.objects.get()
    assert (event.kind, event.from_offset, event.messages, event.cause) == ("MEMBERS", 12, 12, "")
    assert event.members["restarted"]["count"] == 12 and len(event.members["restarted"]["names"]) == 10
    assert client_counts("local", 0, 9_000) == {"billing": [(0, 12)]}


def broker(name: str, boot_ms: int | None) -> BrokerFigures:
    return BrokerFigures(broker_name=name, broker_id=0, addr="a:1", boot_ms=boot_ms)


@pytest.mark.django_db(databases=["default", "metrics"])
def test_a_broker_in_another_process_restarted() -> None:
    def rows(a: int | None, b: int | None) -> dict[BrokerKey, BrokerFigures]:
        return {
            BrokerKey(name, 0): broker(name, boot_ms) for name, boot_ms in (("broker-a", a), ("broker-b", b))
        }

    record_restarts("local", rows(1, None), rows(1, 2), 5_000)
    assert not LagEvent.objects.exists()
    record_restarts("local", rows(1, 2), rows(3, 2), 6_000)
    event = LagEvent.objects.get()
    assert (event.kind, event.broker_name, event.group, event.at_ms) == (
        "BROKER_RESTART",
        "broker-a",
        "",
        6_000,
    )


def test_a_silent_broker_began_when_it_did() -> None:
    assert _boot_ms({"bootTimestamp": "7"}, broker("broker-a", None)) == 7
    assert _boot_ms({}, broker("broker-a", 7)) == 7
    assert _boot_ms({"bootTimestamp": "8"}, broker("broker-a", 7)) == 8
    assert _boot_ms({"bootTimestamp": "soon"}, broker("broker-a", None)) is None
