from __future__ import annotations

import math

import pytest

from brokerd.filter.sql_values import (
    EvaluationError,
    Long,
    compare,
    compare_doubles,
    compare_in_order,
    converted,
    double,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.5", 1.5),
        (" 1.5d ", 1.5),
        ("-Infinity", -math.inf),
        ("0x1.8p1", 3.0),
        (".5e1", 5.0),
        ("1e999", math.inf),
    ],
)
def test_it_reads_doubles_as_java_does(text: str, number: float) -> None:
    assert double(text) == number


@pytest.mark.parametrize(
    ("text", "wanted"), [("1.5", int), ("2147483648", int), (" 1", int), ("9" * 20, Long), ("x", float)]
)
def test_it_refuses_text_that_does_not_fit(text: str, wanted: type) -> None:
    with pytest.raises(EvaluationError):
        converted(text, wanted)


def test_it_compares_values_of_different_types() -> None:
    assert [compare(1, 2), compare("10", 9), compare(Long(3), 3)] == [-1, 1, 0]
    assert (compare(True, 1), compare(1.5, 1)) == (-1, 1)
    with pytest.raises(EvaluationError, match="a boolean on the left"):
        compare(True, "true")


def test_it_orders_texts_as_numbers_and_doubles_as_java() -> None:
    assert (compare("10", "9"), compare_in_order("10", "9")) == (-1, 1)
    assert [
        compare_doubles(-0.0, 0.0),
        compare_doubles(math.nan, math.inf),
        compare_doubles(math.nan, math.nan),
    ] == [
        -1,
        1,
        0,
    ]
