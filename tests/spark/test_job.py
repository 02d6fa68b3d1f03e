"""Specs of jobs: what travels, and what is refused with the field and the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark.job import HourFiles, JobResult, JobSpec, JobSpecError
from spark.lag.local_time import HOUR_MS
from spark.lag.round.filter_ratio import FilterSample

GOOD: dict[str, Any] = {
    "job": "lag_hour",
    "job_id": "report-1",
    "from_ms": 0,
    "to_ms": 2 * HOUR_MS,
    "hours": [{"cluster": "local", "hour_ms": HOUR_MS, "files": ["/history/a.parquet"]}],
    "output": "/reports/lag_hour/report-1",
    "as_of_ms": 2 * HOUR_MS,
}


def test_it_reads_what_it_writes() -> None:
    spec = JobSpec.from_json(json.dumps(GOOD))
    assert spec.hours == (HourFiles("local", HOUR_MS, ("/history/a.parquet",)),)
    assert (spec.slo_ms, spec.interval_ms, spec.lookback_ms) == (60_000, 5_000, HOUR_MS)
    assert JobSpec.from_json(spec.to_json()) == spec
    assert spec.to_json() == JobSpec.from_json(spec.to_json()).to_json()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"from_ms": 1}, "window 1..7200000 is not whole quarters of an hour"),
        ({"to_ms": 0}, "window is empty: from_ms 0 is not before to_ms 0"),
        (
            {"hours": [{"cluster": "c", "hour_ms": 5, "files": []}]},
            "hour 5 is not a whole hour of 0..7200000",
        ),
        (
            {"hours": [{"cluster": "c", "hour_ms": 2 * HOUR_MS, "files": []}]},
            "hour 7200000 is not a whole hour",
        ),
        ({"hours": [{"cluster": "c", "hour_ms": 0}]}, "missing required field `files`"),
        (
            {"hours": [{"cluster": "c", "hour_ms": 0, "files": []}] * 74_401},
            "74401 hours at once; at most 74400",
        ),
        ({"from_ms": "yesterday"}, "Expected `int`, got `str` - at `$.from_ms`"),
        ({"interval_ms": 0}, "interval_ms must be above 0"),
        (
            {"slos": {"billing": [{"slo_ms": 5, "target": 1.0}]}},
            "slos: of billing, slo_ms must not be below 0",
        ),
        ({"slos": {"billing": [{"slo_ms": 5}]}}, "missing required field `target`"),
        (
            {"slos": {"billing": [{"slo_ms": 5, "target": 0.5}, {"slo_ms": 6, "target": 0.5}]}},
            "slos: of billing, every version must begin after the one before",
        ),
        ({"output": ""}, "output names no folder"),
        ({"colour": "red"}, "unknown field `colour`"),
    ],
)
def test_it_refuses_a_spec_and_says_why(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(JobSpecError, match=reason.replace("$", r"\$")):
        JobSpec.from_json(json.dumps({**GOOD, **change}))


@pytest.mark.parametrize("text", ["", "{", "[]", '"spec"', "\ud800"])
def test_it_refuses_what_is_no_spec_at_all(text: str) -> None:
    with pytest.raises(JobSpecError, match="not a job spec"):
        JobSpec.from_json(text)


def test_its_result_travels_as_one_line() -> None:
    result = JobResult(
        job_id="report-1",
        output="/r",
        rows=3,
        hours=1,
        elapsed_ms=9,
        spark_version="4.3.0",
        warnings=("a: b\nc",),
    )
    assert result.to_json() == (
        '{"elapsed_ms":9,"hours":1,"job_id":"report-1","lost_ms":[],"output":"/r","rows":3,"spark_version":"4.3.0",'
        '"unread":[],"warnings":["a: b\\nc"]}'
    )


def test_it_knows_how_many_members_there_were_between_two_moments() -> None:
    spec = JobSpec.from_json(
        json.dumps({**GOOD, "client_changes": {"billing": [[0, 4], [100, 2], [200, 3]]}})
    )
    assert spec.clients_between("billing", 0, 100) == (4, 4)
    assert spec.clients_between("billing", 50, 150) == (2, 4)
    assert spec.clients_between("billing", 100, 300) == (2, 3)
    assert spec.clients_between("audit", 0, 100) == (None, None)


def test_it_sums_what_was_sampled_of_a_filter_between_two_moments() -> None:
    spec = JobSpec.from_json(json.dumps({**GOOD, "filter_samples": {"billing": [[0, 1, 4], [100, 3, 4]]}}))
    assert spec.filter_between("billing", 0, 101) == FilterSample(4, 8, 2)
    assert spec.filter_between("billing", 0, 100) == FilterSample(1, 4, 1)
    assert spec.filter_between("audit", 0, 101) == FilterSample(0, 0, 0)
