"""Parameters of requests: what each type takes, and what is refused with the name of the parameter."""

from __future__ import annotations

from typing import Any

import pytest

from console.operation.errors import PlanRejected
from console.operation.plan.params import ACCEPTING, Accepted, Given, Parameter

TAKEN = Accepted(
    "Sample",
    "",
    (
        ACCEPTING,
        Parameter("number", int, least=1, most=9),
        Parameter("flag", bool),
        Parameter("topics", tuple),
        Parameter("values", dict),
        Parameter("text"),
        Parameter("perm", int, choices={0: "no access", 6: "read and write"}),
        Parameter("mode", choices=("PULL", "POP"), required=True),
    ),
)


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({}, "mode", "mode must be one of PULL, POP."),
        ({"mode": "PUSH"}, "mode", "mode must be one of PULL, POP."),
        (
            {"mode": "POP", "nubmer": 1},
            "nubmer",
            "There is no parameter 'nubmer'. Parameters: accept_without, flag",
        ),
        ({"mode": "POP", "number": 10}, "number", "number must be a number from 1 to 9."),
        ({"mode": "POP", "number": True}, "number", "number must be a number from 1 to 9."),
        ({"mode": "POP", "flag": "yes"}, "flag", "flag must be true or false."),
        ({"mode": "POP", "topics": "orders"}, "topics", "topics must be a list of names."),
        ({"mode": "POP", "topics": ["a", ""]}, "topics", "topics must be a list of names."),
        ({"mode": "POP", "values": {"broker-a": 1}}, "values", "values must be a text for each name."),
        ({"mode": "POP", "text": 5}, "text", "text must be a text."),
        ({"mode": "POP", "perm": False}, "perm", "perm must be one of 0 (no access), 6 (read and write)."),
        ({"mode": "POP", "accept_without": "b"}, "accept_without", "accept_without must be a list of names."),
    ],
)
def test_it_refuses_a_value_with_its_parameter(given: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(PlanRejected) as refusal:
        Given(given).read(TAKEN)
    assert refusal.value.field == field
    assert str(refusal.value).startswith(words)


def test_it_reads_what_is_given_and_leaves_out_the_rest() -> None:
    given = {"mode": "POP", "perm": 0, "topics": ["b", "a", "b"], "text": "", "number": None}
    assert Given(given).read(TAKEN) == {"mode": "POP", "perm": 0, "topics": ("b", "a"), "text": ""}
