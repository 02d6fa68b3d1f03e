"""The fleet page: the worst of every cluster side by side, and what nobody watched."""

from __future__ import annotations

import pytest
from django.test import Client

from console.cluster.models import Cluster
from console.lag.facts import Gap
from console.lag.models import BrokerRow, GroupSlo, HistoryFile, HistoryGap, PromiseCourse, Round
from console.overview import fleet, views
from console.text import Text
from spark.lag.folds.promise import ABSENT, KEPT, LATE, UNKNOWN
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NOW = sample_rows.NOW_MS
HOUR, DAY = 3_600_000, 24 * 3_600_000
MIDNIGHT = NOW - NOW % DAY


class FrozenTime:
    @staticmethod
    def time() -> float:
        return NOW / 1000


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "time", FrozenTime)


@pytest.fixture
def two_clusters() -> list[Cluster]:
    """Cluster "east" with current rows; "west", whose last round was an hour ago."""
    found = [Cluster.objects.create(name=name, namesrv_addrs="127.0.0.1:1") for name in ("east", "west")]
    for cluster, age_ms in (("east", 2_000), ("west", HOUR)):
        Round.objects.create(cluster=cluster, number=1, started_at_ms=NOW - age_ms, duration_ms=9)
    return found


def late(cluster: str, group: str, minutes: int) -> None:
    for key, changes in (("", [(0, ABSENT), (NOW - DAY, KEPT)]), (group, [(NOW - minutes * 60_000, LATE)])):
        PromiseCourse.objects.update_or_create(
            cluster=cluster,
            group=key,
            topic=key and "orders",
            defaults={"changes": changes, "read_at_ms": NOW},
        )


def test_it_ranks_what_burns_over_all_clusters(two_clusters: list[Cluster]) -> None:
    late("east", "slow", 6)
    late("west", "slower", 30)
    page = signed_in().get("/fleet").content.decode()
    assert page.index(">slower</a>") < page.index(">slow</a>")
    assert "50.0 ×" in page and "10.0 ×" in page  # 30 and 6 minutes of an hour, of 1 % allowed


def test_a_card_without_rates_has_from_when_they_are_known(two_clusters: list[Cluster]) -> None:
    for cluster, minutes in (("east", 4), ("west", 9)):
        late(cluster, "", 0)
        began = [(0, UNKNOWN), (NOW - minutes * 60_000, KEPT)]
        PromiseCourse.objects.filter(cluster=cluster, group="").update(changes=began)
    shown = signed_in().get("/fleet")
    assert shown.context["burning"] == []
    assert shown.context["known_from_ms"] == NOW - 4 * 60_000 + round(0.95 * 6 * HOUR)
    assert "if no round is missed" in shown.content.decode()


def test_a_late_topic_of_which_too_little_is_known_reads_unknown(two_clusters: list[Cluster]) -> None:
    """No worker ran until four minutes ago, and a group is late: nothing is fine, and no burn is known."""
    late("east", "slow", 2)
    reader = signed_in()
    PromiseCourse.objects.filter(group="").update(changes=[(0, UNKNOWN), (NOW - 4 * 60_000, KEPT)])
    page = reader.get("/fleet").content.decode()
    assert ">slow</a>" in page and page.count("less than 95 % of this time was observed") == 1
    assert ">1 h</th>" in page and ">6 h</th>" in page
    assert reader.get("/fleet").context["known_from_ms"] == NOW - 4 * 60_000 + round(0.95 * 6 * HOUR)
    assert "if no round is missed" in page
    PromiseCourse.objects.filter(group="").update(changes=[(0, UNKNOWN)])
    assert "if no round is missed" not in reader.get("/fleet").content.decode()
    PromiseCourse.objects.exclude(group="").delete()
    page = reader.get("/fleet").content.decode()
    assert "No SLO is known to have been breached in the last six hours." in page


def test_a_cluster_without_a_current_round_says_nothing_of_now(two_clusters: list[Cluster]) -> None:
    for cluster in ("east", "west"):
        sample_rows.group_row(
            f"{cluster}-group", cluster=cluster, time_lag_ms=90_000, lag=500, in_rate=9.0, out_rate=2.0,
            time_to_loss_ms=HOUR,
        )  # fmt: skip
    answer = signed_in().get("/fleet")
    (east, _), (west, _) = answer.context["lines"]
    assert (east.is_current, east.late, west.is_current) == (True, 1, False)
    page = answer.content.decode()
    assert page.count(">east-group</a>") == 2  # growing, and near data loss
    assert "west-group" not in page and "Stale" in page


def test_a_group_is_late_by_its_own_promise(two_clusters: list[Cluster]) -> None:
    for group, promise_ms in (("patient", 300_000), ("strict", 10_000), ("default", None)):
        sample_rows.group_row(group, cluster="east", time_lag_ms=90_000 if group != "strict" else 20_000)
        GroupSlo.objects.create(cluster="east", group=group, slo_ms=promise_ms)
    (east, _), _ = signed_in().get("/fleet").context["lines"]
    assert (east.groups, east.late) == (3, 2)


def test_it_shows_how_much_of_each_day_was_watched() -> None:
    long_ago = Gap(MIDNIGHT - 9 * DAY, MIDNIGHT - 8 * DAY)
    gaps = [Gap(MIDNIGHT - DAY, MIDNIGHT - DAY // 2), long_ago, Gap(NOW - 60_000, None)]
    found = fleet.watched_pct(gaps, MIDNIGHT - 4 * DAY + DAY // 4, NOW)
    # before its first round no round took place, whatever gap was written down; its own day counts from there
    assert found[:6] == [None, None, 100, 100, 100, 50]
    assert found[6] == round(100 * (1 - 60_000 / (NOW - MIDNIGHT)), 1)
    assert fleet.days_shown(NOW)[-1] == MIDNIGHT and len(found) == len(fleet.days_shown(NOW))
    assert fleet.watched_pct([], None, NOW) == [None] * 7
    # a broker that was silent when the collector stood still too counts once
    silent = Gap(MIDNIGHT - DAY + DAY // 4, MIDNIGHT - DAY // 4)
    assert fleet.watched_pct([*gaps, silent], MIDNIGHT - 4 * DAY, NOW)[5] == 25


def test_a_cluster_whose_slave_is_read_for_a_master_is_not_ok(two_clusters: list[Cluster]) -> None:
    for number, broker_id in ((1, 0), (2, 1), (3, 2)):
        BrokerRow.objects.create(
            cluster="east", broker_name=f"broker-{number}", addr=f"127.0.0.1:{number}", broker_id=broker_id,
            answered=True, since_ms=NOW, read_at_ms=NOW,
        )  # fmt: skip
    reader = signed_in()
    for page in ("/fleet", "/clusters"):
        text = reader.get(page).content.decode()
        assert "No master" in text and "2 brokers have no master" in text, page
    BrokerRow.objects.filter(broker_id__gt=0).update(broker_id=0)
    for page in ("/fleet", "/clusters"):
        assert "No master" not in reader.get(page).content.decode()


def test_a_silent_broker_is_on_the_map_of_coverage(two_clusters: list[Cluster]) -> None:
    HistoryFile.objects.create(
        cluster="east", kind="CHUNK_DAY", path="a", ts_lo_ms=MIDNIGHT - 3 * DAY, ts_hi_ms=NOW, created_at_ms=NOW,
        state="LIVE",
    )  # fmt: skip
    HistoryGap.objects.create(
        cluster="east", broker_name="broker-b", from_ms=MIDNIGHT - DAY, to_ms=MIDNIGHT - DAY // 2,
        reason=Text("silent"),
    )  # fmt: skip
    (east, _), (west, _) = signed_in().get("/fleet").context["lines"]
    assert (east.days[-3:], west.days[-1]) == ([100, 50, 100], None)


def test_it_lists_the_longest_times_nobody_watched(two_clusters: list[Cluster]) -> None:
    HistoryGap.objects.create(
        cluster="east", from_ms=NOW - HOUR, to_ms=NOW - HOUR + 60_000, reason=Text("late")
    )
    HistoryGap.objects.create(
        cluster="west", broker_name="broker-b", from_ms=NOW - 2 * HOUR, reason=Text("silent")
    )
    HistoryGap.objects.create(
        cluster="west", from_ms=NOW - 30 * DAY, to_ms=NOW - 29 * DAY, reason=Text("long ago")
    )
    found = fleet.unwatched(two_clusters, NOW)
    assert [(one.cluster, one.broker_name, one.lasted_ms) for one in found] == [
        ("west", "broker-b", 2 * HOUR),
        ("east", "", 60_000),
    ]


def test_it_asks_strangers_to_sign_in_and_has_words_for_nothing(client: Client) -> None:
    assert client.get("/fleet").status_code == 302
    page = signed_in().get("/fleet").content.decode()
    assert "No SLO was breached in the last six hours." in page and "No cluster" in page
