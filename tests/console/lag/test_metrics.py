"""/metrics at group × topic: what is known now, under names that the dashboard asks for; nothing old or guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from console import health
from console.cluster.models import Cluster
from console.lag.episode_state import Promised
from console.lag.facts import Burn, burning, burns, forecast_breach
from console.lag.metrics import labels_of
from console.lag.models import BrokerRow, GroupRow, GroupSlo, PromiseCourse, Round
from spark.lag.codes import CODE_OF
from spark.lag.folds.promise import ABSENT, KEPT, LATE, UNKNOWN, Spent
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NOW = 1_773_288_374_000
MINUTE = 60_000
HOUR = 60 * MINUTE
DASHBOARD = Path(__file__).parent.parent.parent.parent / "deploy/grafana/tidemark-lag.json"


def topic(name: str = "orders", **figures: Any) -> dict[str, Any]:
    return {
        "topic": name, "queues": 2, "lag": 40, "lag_lower_bound": False, "never_committed_lag": 0, "time_lag_ms": 2_304,
        "time_lag_lower_bound": False, "status": "OK", "partial": False, "in_rate": 10.0, "out_rate": 9.5,
        "stall_ms": 2_000, "time_to_loss_ms": 7_200_000, "time_to_loss_never": False, **figures,
    }  # fmt: skip


@pytest.fixture
def cluster() -> Cluster:
    """Cluster "local", whose last round was two seconds ago."""
    Round.objects.create(cluster="local", number=1, started_at_ms=NOW - 2_000, duration_ms=250, rpcs=9)
    return Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1", poll_interval_s=5)


def group(name: str = "billing", *topics: dict[str, Any], **figures: Any) -> GroupRow:
    return sample_rows.group_row(name, topics=list(topics or [topic()]), **figures)


def samples(now_ms: int = NOW) -> dict[str, float]:
    """name{label="value",…}, labels in the order of their names → value; parsed as Prometheus does."""
    found = {}
    for family in text_string_to_metric_families(health.metrics_text(now_ms).decode()):
        for one in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(one.labels.items()))
            assert f"{one.name}{{{labels}}}" not in found
            found[f"{one.name}{{{labels}}}"] = one.value
    return found


ORDERS = '{cluster="local",group="billing",topic="orders"}'


def test_it_gives_every_figure_that_is_known(cluster: Cluster) -> None:
    group("billing", topic(status="STALLED", lag_lower_bound=True, never_committed_lag=7))
    found = samples()
    assert {name: value for name, value in found.items() if name.endswith(ORDERS)} == {
        f"rocketmq_consumergroup_group_topic_sum_lag{ORDERS}": 40,
        f"rocketmq_consumergroup_group_topic_max_lag_seconds{ORDERS}": 2.304,
        f"tidemark_group_topic_lag_is_lower_bound{ORDERS}": 1,
        f"tidemark_group_topic_lag_seconds_is_lower_bound{ORDERS}": 0,
        f"tidemark_group_topic_in_rate{ORDERS}": 10,
        f"tidemark_group_topic_out_rate{ORDERS}": 9.5,
        f"tidemark_group_topic_stall_seconds{ORDERS}": 2,
        f"tidemark_group_topic_time_to_loss_seconds{ORDERS}": 7_200,
        f"tidemark_group_topic_never_committed_messages{ORDERS}": 7,
        f"tidemark_group_topic_status{ORDERS}": 4,
    }
    assert found['tidemark_status_code{status="STALLED"}'] == 4
    assert found['tidemark_status_code{status="UNKNOWN"}'] == 12
    assert found['tidemark_collector_round_age_seconds{cluster="local"}'] == 2


BILLING = '{cluster="local",group="billing"}'


def test_it_gives_every_figure_of_a_group(cluster: Cluster) -> None:
    group(
        lag=40, lag_lower_bound=True, time_lag_ms=90_500, drain_ms=120_000, dlq_count=3, dlq_in_rate=0.5,
        retry_in_rate=1.5,
    )  # fmt: skip
    assert {name: value for name, value in samples().items() if name.endswith(BILLING)} == {
        f"rocketmq_consumergroup_group_sum_lag{BILLING}": 40,
        f"rocketmq_consumergroup_group_max_lag_seconds{BILLING}": 90.5,
        f"tidemark_group_lag_is_lower_bound{BILLING}": 1,
        f"tidemark_group_lag_seconds_is_lower_bound{BILLING}": 0,
        f"tidemark_group_in_rate{BILLING}": 14.2,
        f"tidemark_group_out_rate{BILLING}": 14.2,
        f"tidemark_group_retry_rate{BILLING}": 1.5,
        f"tidemark_group_dead_letters{BILLING}": 3,
        f"tidemark_group_dead_letter_rate{BILLING}": 0.5,
        f"tidemark_group_forecast_breach{BILLING}": 1,
    }
    GroupSlo.objects.create(cluster="local", group="billing", slo_ms=150_000)
    assert samples()[f"tidemark_group_forecast_breach{BILLING}"] == 0


def test_what_is_unknown_of_a_group_has_no_sample(cluster: Cluster) -> None:
    unknown = ("lag", "time_lag_ms", "in_rate", "out_rate", "dlq_count", "dlq_in_rate", "retry_in_rate")
    group(**dict.fromkeys(unknown), lag_lower_bound=True)
    assert not [name for name in samples() if name.endswith(BILLING)]


def test_what_is_unknown_has_no_sample(cluster: Cluster) -> None:
    unknown = dict.fromkeys(
        ("lag", "time_lag_ms", "in_rate", "out_rate", "stall_ms", "time_to_loss_ms"), None
    )
    group("billing", topic(status="UNKNOWN", partial=True, **unknown))
    found = samples()
    assert {name: value for name, value in found.items() if 'topic="orders"' in name} == {
        f"tidemark_group_topic_status{ORDERS}": 12
    }


def test_what_was_never_committed_is_given_where_queues_were_read(cluster: Cluster) -> None:
    nothing = {"lag": None, "time_lag_ms": None, "status": "NEVER_COMMITTED"}
    group("billing", topic(**nothing, never_committed_lag=12))
    group("newcomer", topic(**nothing, queues=0))  # only subscribed
    found = {name: value for name, value in samples().items() if "never_committed_messages" in name}
    assert found == {f"tidemark_group_topic_never_committed_messages{ORDERS}": 12}


def test_figures_of_an_old_round_end(cluster: Cluster) -> None:
    """The worker died: the last figures are not repeated, and the age of the last round says so."""
    group()
    BrokerRow.objects.create(cluster="local", broker_name="broker-a", addr="a:1", answered=True)
    assert any("sum_lag" in name for name in samples(NOW + 27_999))
    found = samples(NOW + 28_001)
    named = {name for name in found if 'cluster="local"' in name}
    assert named == {
        'tidemark_collector_round_age_seconds{cluster="local"}',
        'tidemark_collector_gap_seconds{cluster="local"}',
        'tidemark_collector_current{cluster="local"}',
        'tidemark_collector_last_round_timestamp_seconds{cluster="local"}',
        'tidemark_collector_round_seconds{cluster="local"}',
        'tidemark_collector_round_calls{cluster="local"}',
    }
    assert found['tidemark_collector_current{cluster="local"}'] == 0
    assert found['tidemark_collector_round_age_seconds{cluster="local"}'] == 30.001


def course(*changes: tuple[int, int], group: str = "billing", topic: str = "orders") -> None:
    PromiseCourse.objects.update_or_create(
        cluster="local", group=group, topic=topic, defaults={"changes": changes, "read_at_ms": NOW - 2_000}
    )


def burn_of(found: dict[str, float]) -> dict[str, float]:
    pattern = re.compile(r'tidemark_group_topic_burn_rate\{.*window="(\w+)"\}')
    return {match[1]: round(value, 3) for name, value in found.items() if (match := pattern.fullmatch(name))}


def test_the_burn_over_each_window_is_breach_by_known_time(cluster: Cluster) -> None:
    group()
    assert burn_of(samples()) == {}  # no round was noted
    course((0, ABSENT), (NOW - 100 * HOUR, KEPT), group="", topic="")
    assert burn_of(samples()) == {"5m": 0, "30m": 0, "1h": 0, "6h": 0, "3d": 0}
    late = (NOW - 12 * MINUTE, LATE), (NOW - 3 * MINUTE, KEPT)  # two minutes of it within the last five
    course(*late)
    found = burn_of(samples())
    assert found == {"5m": 40, "30m": 30, "1h": 15, "6h": 2.5, "3d": 0.208}
    GroupSlo.objects.create(cluster="local", group="billing", slo_ms=1, target=0.9)
    assert burn_of(samples())["1h"] == 1.5
    course((NOW - 14 * MINUTE, UNKNOWN), *late)
    assert burn_of(samples())["1h"] == 1.552  # 9 minutes of 58
    course((NOW - 16 * MINUTE, UNKNOWN), *late)
    assert burn_of(samples()).keys() == {"5m", "6h", "3d"}  # the others are known for less than 95 %


def test_broadcasting_groups_have_no_burn(cluster: Cluster) -> None:
    group(model="BROADCASTING")
    course((0, ABSENT), (NOW - 100 * HOUR, KEPT), group="", topic="")
    assert burn_of(samples()) == {}


def test_names_stay_short_and_different(settings: Settings) -> None:
    long = "g" * 200
    assert labels_of(group=long + "a") != labels_of(group=long + "b")
    assert len(labels_of(group=long)) == 128 + len('{group=""}')
    assert labels_of(group='a"\\\n') == '{group="a\\"\\\\\\n"}'


def test_the_least_urgent_are_left_out_and_counted(cluster: Cluster, settings: Settings) -> None:
    settings.METRICS_TOPICS_MAX = 2
    for number in range(4):
        group(f"g{number}", attention=number)
    found = samples()
    assert [name for name in found if "topic_sum_lag" in name] == [
        'rocketmq_consumergroup_group_topic_sum_lag{cluster="local",group="g3",topic="orders"}',
        'rocketmq_consumergroup_group_topic_sum_lag{cluster="local",group="g2",topic="orders"}',
    ]
    assert found['tidemark_metrics_left_out{of="group_topic"}'] == 2
    assert found['tidemark_metrics_left_out{of="queue"}'] == 0


def test_queues_are_given_when_the_setting_asks_for_them(cluster: Cluster, settings: Settings) -> None:
    group()
    sample_rows.queue_row("billing", 1, lag=7, time_lag_ms=500, committed_offset=93, max_offset=100)
    sample_rows.queue_row("billing", 2, lag=None, time_lag_ms=None, committed_offset=None)
    assert not any("queue_id=" in name for name in samples())
    settings.METRICS_QUEUES = True
    own = '{broker="broker-a",cluster="local",group="billing",queue_id="1",topic="orders"}'
    found = samples()
    assert found[f"rocketmq_consumergroup_group_lag{own}"] == 7
    assert found[f"rocketmq_consumergroup_group_lag_seconds{own}"] == 0.5
    assert found[f"rocketmq_consumergroup_group_offset{own}"] == 93
    assert found[f"rocketmq_queue_latest_offset{own}"] == 100
    assert not any(
        name.startswith("rocketmq_consumergroup_group_lag{") and 'queue_id="2"' in name for name in found
    )
    sample_rows.queue_row("billing", 3, status="UNKNOWN")  # its broker is silent: offsets are those of before
    assert not any('queue_id="3"' in name for name in samples())
    settings.METRICS_QUEUES_MAX = 1
    assert samples()['tidemark_metrics_left_out{of="queue"}'] == 1


# --- the dashboard ---

WORDS = {
    "sum", "count", "min", "max", "topk", "bottomk", "by", "on", "and", "or", "unless", "label_values",
}  # fmt: skip


def targets() -> Iterator[dict[str, Any]]:
    """Every query of the panels, with its legend; `is_now` where the panel shows one number."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from ({**target, "is_now": panel["type"] == "stat"} for target in panel["targets"])


def queries() -> Iterator[str]:
    """Every query of the dashboard: of its panels and of its variables."""
    yield from (target["expr"] for target in targets())
    board = json.loads(DASHBOARD.read_text())
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def asked(query: str) -> dict[str, set[str]]:
    """Metric → labels that a query selects or groups by."""
    own: dict[str, set[str]] = {}
    for name, _, chosen in re.findall(r"\b((?:tidemark|rocketmq)_\w+)(\{([^}]*)\})?", query):
        own.setdefault(name, set()).update(re.findall(r"(\w+)=~?", chosen))
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    for labels in own.values():
        labels.update(label.strip() for each in grouped for label in each.split(","))
    return own


def test_every_query_of_the_dashboard_is_about_names_that_are_served(cluster: Cluster) -> None:
    group(dlq_count=3)
    course((0, ABSENT), (NOW - HOUR, KEPT), group="", topic="")
    BrokerRow.objects.create(cluster="local", broker_name="broker-a", addr="a:1", answered=True)
    served: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(health.metrics_text(NOW).decode()):
        for one in family.samples:
            served.setdefault(one.name, set()).update(one.labels)
    found = list(queries())
    assert len(found) > 20
    for query in found:
        wanted = asked(query)
        assert wanted, query
        unknown = set(re.findall(r"\b[a-z_]{3,}\b(?=\s*[({])", query)) - WORDS - set(served)
        assert not unknown, (query, unknown)
        for name, labels in wanted.items():
            assert labels <= served[name], (query, name)


def test_legends_name_labels_that_the_query_leaves() -> None:
    own = {"cluster", "group", "topic"}
    for target in targets():
        (*_, kept) = ["cluster,group,topic", *re.findall(r"\bby \(([^)]*)\)", target["expr"])]
        named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert named <= {label.strip() for label in kept.split(",")} & own, target
        metrics = re.findall(r"\b(?:tidemark|rocketmq)_\w+", target["expr"])
        if not any("_topic_" in name for name in metrics):
            assert "topic" not in named, target


def test_a_number_of_the_dashboard_is_of_now_or_absent() -> None:
    """A range would give the last number before the worker died; a zero of no series would say that all is well."""
    shown = [target for target in targets() if target["is_now"]]
    assert len(shown) == 8
    assert all(target["instant"] and not target["range"] for target in shown)
    assert not any("vector(" in query for query in queries())


def test_the_dashboard_has_a_word_for_every_status() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    (mapping,) = [
        one for panel in panels for one in panel["fieldConfig"]["defaults"].get("mappings", []) if one
    ]
    assert {int(code): word["text"] for code, word in mapping["options"].items()} == {
        code: status.value for status, code in CODE_OF.items()
    }


# --- facts ---


def test_burn_is_unknown_where_too_little_is_known() -> None:
    known, half = Spent(5 * MINUTE, 10 * MINUTE, 10 * MINUTE), Spent(5 * MINUTE, 94 * MINUTE, 100 * MINUTE)
    found = burns([known, half, Spent(0, 0, 0), known, known], [0.99] * 5)
    assert [one.rate and round(one.rate, 2) for one in found] == [50.0, None, None, 50.0, 50.0]


def test_an_alert_needs_both_of_its_windows() -> None:
    def fired(**rates: float | None) -> list[float]:
        minutes = {"m5": 5, "m30": 30, "h1": 60, "h6": 360, "d3": 4_320}
        return burning([Burn(minutes[name] * MINUTE, rate) for name, rate in rates.items()])

    assert fired(m5=20, h1=15, m30=1, h6=1, d3=0.5) == [14.4]
    assert fired(m5=0, h1=15, m30=7, h6=6.5, d3=1.5) == [6.0, 1.0]
    assert fired(m5=20, h1=None, m30=None, h6=None, d3=None) == []


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"time_lag_ms": 30_000, "time_lag_lower_bound": False}, False),
        ({"time_lag_ms": 30_000, "time_lag_lower_bound": True}, None),
        ({"time_lag_ms": None, "time_lag_lower_bound": False}, None),
        ({"time_lag_ms": 90_000, "time_lag_lower_bound": True, "drain_never": True, "drain_ms": None}, True),
        (
            {"time_lag_ms": 90_000, "time_lag_lower_bound": False, "drain_never": False, "drain_ms": 61_000},
            True,
        ),
        (
            {"time_lag_ms": 90_000, "time_lag_lower_bound": False, "drain_never": False, "drain_ms": 9_000},
            False,
        ),
        (
            {"time_lag_ms": 90_000, "time_lag_lower_bound": False, "drain_never": False, "drain_ms": None},
            None,
        ),
        ({"time_lag_ms": 90_000, "drain_ms": None, "drain_known_ms": 61_000}, True),
        ({"time_lag_ms": 90_000, "drain_ms": None, "drain_known_ms": 9_000}, None),
    ],
)
def test_a_forecast_breach_is_unknown_where_nobody_can_tell(
    row: dict[str, Any], expected: bool | None
) -> None:
    assert forecast_breach(GroupRow(**row), Promised(60_000, 0.99)) is expected
