"""Burn without history: what rounds write down, over restarts and lost rows, against the fold of the same rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.conf import settings as django_settings
from django.db import connections
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from console.lag.models import GroupSlo, HistoryFile, PromiseCourse
from console.lag.promise_courses import Budgets, PromiseCourses
from spark.lag.folds.promise import Spent
from spark.lag.folds.window import fold
from spark.lag.grid import grid_of
from tests.spark.lag.folds.test_promise import SLO_MS, rounds
from tests.spark.lag.judged import STEP, made

MINUTE, HOUR = 60_000, 3_600_000


class TestAgainstTheFold(TestCase):
    databases = {"default", "metrics"}

    @settings(max_examples=15)
    @given(st.integers(0, 10_000), st.sets(st.integers(1, 59)), st.integers(0, 300_000))
    def test_budgets_are_those_of_the_fold(self, seed: int, restarts: set[int], later_ms: int) -> None:
        """Some rounds are the last that a process wrote to the log, and did not save."""
        PromiseCourse.objects.all().delete()
        history = made(seed, groups=("a", "b"))
        every = rounds(history.samples)
        courses = PromiseCourses("local", STEP)
        courses.load()
        for number, snapshot in enumerate(every):
            if number in restarts:
                courses = PromiseCourses("local", STEP)
                courses.load()
                courses.catch_up(every[:number])
            courses.note(snapshot)
            if number + 1 not in restarts or number % 2:
                courses.save()
        courses.save()
        now_ms = every[-1].ts_ms + later_ms
        budgets = Budgets("local", STEP, now_ms)
        grid = grid_of(history.samples, STEP)
        for place, (from_ms, to_ms) in enumerate(budgets.windows):
            whole = fold(grid, from_ms, to_ms, lambda group: SLO_MS).topics
            for row, key in enumerate(whole.keys):
                times = (whole.sums.breach_ms, whole.sums.watched_ms, whole.sums.exists_ms)
                assert budgets.spent(key.group, key.topic)[place] == Spent(*(int(one[row]) for one in times))


pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def test_a_round_without_news_writes_its_time_only() -> None:
    every = rounds(made(3, groups=("a", "b")).samples)
    courses = PromiseCourses("local", STEP)
    courses.load()
    courses.note(every[0])
    courses.save()
    calm = every[0]
    for later_ms in (STEP, 2 * STEP):
        again = type(calm)(
            ts_ms=calm.ts_ms + later_ms, number=1, commit_keys=calm.commit_keys, committed=calm.committed,
            pulled=calm.pulled, time_lag_ms=calm.time_lag_ms, status=calm.status, flags=calm.flags,
        )  # fmt: skip
        courses.note(again)
        with CaptureQueriesContext(connections["metrics"]) as queries:
            courses.save()
        assert len(queries) == 1, [one["sql"] for one in queries]


def test_time_before_the_first_noted_round_is_unknown_where_history_has_it() -> None:
    """The metrics database was deleted: three days are known again three days later."""
    every = rounds(made(3, groups=("a", "b")).samples)
    now_ms = every[-1].ts_ms
    HistoryFile.objects.create(
        path="a", kind="chunk_hour", cluster="local", ts_lo_ms=now_ms - 2 * HOUR, ts_hi_ms=now_ms - HOUR
    )
    courses = PromiseCourses("local", STEP)
    courses.load()
    for snapshot in every:
        courses.note(snapshot)
    courses.save()
    budgets = Budgets("local", STEP, now_ms)
    key = next(key for key in courses._topics)
    assert [one.exists_ms for one in budgets.spent(*key)][-1] == 2 * HOUR
    rates = {one.window_ms: one.rate for one in budgets.burns(*key)}
    assert rates[6 * HOUR] is None and rates[72 * HOUR] is None


def test_another_promise_leaves_the_past_as_it_was_judged() -> None:
    history = made(8, groups=("a", "b"))
    every = rounds(history.samples)
    courses = PromiseCourses("local", STEP)
    courses.load()
    for snapshot in every[:50]:
        courses.note(snapshot)
    courses.save()
    changed_ms = every[50].ts_ms
    before = Budgets("local", STEP, every[49].ts_ms).spent("a", "orders")[-1]
    GroupSlo.objects.create(cluster="local", group="a", slo_ms=10**9, target=0.9, from_ms=changed_ms)
    courses = PromiseCourses("local", STEP)
    courses.load()
    courses.catch_up(every[:50])
    for snapshot in every[50:]:
        courses.note(snapshot)
    courses.save()
    budgets = Budgets("local", STEP, every[-1].ts_ms)
    assert budgets.promised("a").from_ms == changed_ms
    spent = budgets.spent("a", "orders")[-1]
    assert spent.exists_ms == budgets.spent("b", "orders")[-1].exists_ms == every[-1].ts_ms - every[0].ts_ms
    # nothing is late by the promise of now, and what was late stays so; a round holds for one more
    assert before.breach_ms <= spent.breach_ms <= before.breach_ms + STEP
    assert spent.breach_ms > 0
    watched_before, watched = before.watched_ms, spent.watched_ms
    target = budgets._target("a", "orders", budgets.windows[-1])
    default = django_settings.LAG_SLO_TARGET
    expected = (default * watched_before + 0.9 * (watched - watched_before)) / watched
    assert target == pytest.approx(expected, abs=0.002)


def test_what_was_noted_while_the_clock_was_ahead_is_dropped() -> None:
    every = rounds(made(8, groups=("a", "b")).samples)
    courses = PromiseCourses("local", STEP)
    for number, ahead_ms in ((40, 9 * HOUR), (41, 0)):
        courses.load()
        courses.note(replace(every[number], ts_ms=every[number].ts_ms + ahead_ms))
        courses.save()
    budgets = Budgets("local", STEP, every[41].ts_ms + STEP)
    assert PromiseCourse.objects.get(group="").changes == [[0, 3], [every[41].ts_ms, 0]]
    assert budgets.spent("b", "orders")[-1].exists_ms == STEP
