"""The life of a job as a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.operation.errors import IllegalTransition
from console.operation.models import FINAL_STATES, Confirm, JobState
from console.operation.rules import JOB, JobEventKind, confirmation, fingerprint


@given(st.lists(st.sampled_from(list(JobEventKind)), max_size=30))
def test_it_never_leaves_a_final_state_nor_starts_a_paused_job(events: list[JobEventKind]) -> None:
    state, verified = JobState.QUEUED, False
    for event in events:
        try:
            after = JOB.next(state, event)
        except IllegalTransition:
            continue
        assert state not in FINAL_STATES
        assert not (state == JobState.PAUSED and after == JobState.RUNNING), "resume goes through the queue"
        verified = verified or after == JobState.VERIFYING
        assert after != JobState.SUCCEEDED or verified, "success without a look at the brokers"
        state = after


def test_it_can_end_every_job_from_every_state() -> None:
    for start in JobState:
        reached, frontier = {start}, [start]
        while frontier:
            state = frontier.pop()
            for (source, _), target in JOB.table.items():
                if source == state and target not in reached:
                    reached.add(target)
                    frontier.append(target)
        assert reached & FINAL_STATES, start


def test_it_names_the_sources_of_a_conditional_update() -> None:
    assert JOB.sources(JobEventKind.PAUSE) == [JobState.QUEUED, JobState.RUNNING]
    assert JOB.sources(JobEventKind.RESUME) == [JobState.PAUSED]
    assert JOB.sources(JobEventKind.VERIFIED) == [JobState.VERIFYING]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [(0, Confirm.INLINE), (999, Confirm.INLINE), (1_000, Confirm.TYPED), (5_000, Confirm.SECOND_PERSON)],
)
def test_it_scales_the_confirmation_with_the_blast_radius(messages: int, expected: Confirm) -> None:
    assert confirmation(messages, typed_from=1_000, second_person_from=5_000) == expected


def test_it_asks_no_second_person_without_a_rule() -> None:
    assert confirmation(10**9, typed_from=1_000, second_person_from=None) == Confirm.TYPED


def test_it_fingerprints_independent_of_key_order() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
