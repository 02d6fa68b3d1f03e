"""Cases run side by side; one that failed is another's second try, not its first result again."""

from __future__ import annotations

import threading

import pytest

from tests.support.parallel_cases import ParallelCases


def test_all_cases_run_at_once() -> None:
    both = threading.Barrier(2)

    def run(case: str) -> str:
        both.wait(20)  # one that came first would wait for ever
        return case.upper()

    with ParallelCases(run, ("a", "b")) as begun:
        assert [begun.finish(case) for case in ("b", "a")] == ["B", "A"]


def test_a_failed_case_fails_its_test_and_no_other_and_runs_again() -> None:
    tries: list[str] = []

    def run(case: str) -> str:
        tries.append(case)
        if tries.count(case) == 1 and case == "bad":
            raise ValueError("the first time")
        return case

    with ParallelCases(run, ("good", "bad")) as begun:
        with pytest.raises(ValueError, match="the first time"):
            begun.finish("bad")
        assert begun.finish("good") == "good"
        assert begun.finish("bad") == "bad"
    assert sorted(tries) == ["bad", "bad", "good"]
