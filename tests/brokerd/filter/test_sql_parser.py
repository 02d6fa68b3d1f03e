"""SQL92 filters: against a plain twin, the rules RocketMQ is known for, and what is refused where."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings

from brokerd.filter.sql_parser import DEPTH_MAX, LENGTH_MAX, TERMS_MAX, compile_expression
from brokerd.filter.sql_tokens import ExpressionError
from tests.brokerd.filter.filter_twin import EXPRESSIONS, MESSAGES, Node, expected, rendered


def matches(expression: str, **properties: str) -> bool:
    return compile_expression(expression).matches(properties)


@settings(max_examples=600)
@given(EXPRESSIONS, MESSAGES)
def test_it_agrees_with_plain_none_logic(node: Node, properties: Mapping[str, str]) -> None:
    assert matches(rendered(node), **properties) is expected(node, properties)


@pytest.mark.parametrize(
    ("expression", "properties", "is_match"),
    [
        # Three values: what is missing is unknown, and NOT of unknown is unknown.
        ("a <> 5", {}, False),
        ("NOT (a = 5)", {}, False),
        ("5 <> a", {}, True),
        ("a = 5 OR b = 5", {"b": "5"}, True),
        ("a = 5 AND b = 5 OR c IS NOT NULL", {"c": "x"}, True),
        ("a IS NULL", {"a": ""}, True),
        # A property is read as the literal's type; what does not fit ends everything …
        ("a = 5", {"a": "5.0"}, False),
        ("a = 5.0", {"a": "5"}, True),
        ("a = 5.0", {"a": " 5d "}, True),
        ("a > 5", {"a": " 6"}, False),
        ("a > 5", {"a": "3000000000"}, False),
        ("a > 5000000000", {"a": "6000000000"}, True),
        ("a > 5 OR b = 'x'", {"a": "much", "b": "x"}, False),
        # … unless it is not looked at.
        ("b = 'x' OR a > 5", {"a": "much", "b": "x"}, True),
        ("b = 'y' AND a > 5 OR b = 'x'", {"a": "much", "b": "x"}, True),
        ("a > b", {"a": "1e2", "b": "20"}, True),
        ("a > b", {"a": "z", "b": "y"}, False),
        ("a < Infinity", {"a": "1", "Infinity": "2"}, True),
        ("a < b", {"a": "-0.0", "b": "0.0"}, True),
        ("a > b", {"a": "NaN", "b": "Infinity"}, True),
        ("a >= b", {"a": "0x1p3", "b": "8"}, True),
        # Booleans
        ("a = TRUE", {"a": "TRUE"}, True),
        ("TRUE = a", {"a": "true"}, False),
        ("a", {"a": "true"}, False),
        ("TRUE", {}, True),
        ("NULL OR TRUE", {}, True),
        ("NOT a = FALSE", {"a": "x"}, False),  # (NOT a) = FALSE, and NOT a is TRUE
        ("(a = 1) = TRUE", {"a": "1"}, True),
        # Signs, numbers
        ("a = -5 AND b > -6 AND c = +7", {"a": "-5", "b": "-5", "c": "7"}, True),
        ("a BETWEEN -3 AND 3", {"a": "-2"}, True),
        ("a NOT BETWEEN 1 AND 3", {"a": "4"}, True),
        ("a > -'x'", {"a": "1"}, False),
        ("a = 5L AND b = .5 AND c = 5. AND d = 1e1", {"a": "5", "b": "0.5", "c": "5", "d": "10"}, True),
        ("a = 9223372036854775807", {"a": "9223372036854775807"}, True),
        # Text
        ("a = 'it''s'", {"a": "it's"}, True),
        ("a = ''", {"a": ""}, False),
        ("a IN ('x', 'y')", {"a": "y"}, True),
        ("a NOT IN ('x')", {}, False),
        ("a CONTAINS 'b'", {"a": "abc"}, True),
        ("a NOT CONTAINS ''", {"a": "abc"}, False),
        ("a NOT STARTSWITH 'b'", {"a": "abc"}, True),
        ("a ENDSWITH 'bc'", {"a": "abc"}, True),
        ("中文 IS NULL OR a = 1", {"a": "1"}, None),
        ("名 = 'x'", {}, None),
        ("a = '中文'", {"a": "中文"}, True),
        # Words and blanks
        ("tags = 'x'", {"TAGS": "x"}, False),
        ("TAGS = 'x' aNd $a_1 Is Not Null", {"TAGS": "x", "$a_1": "1"}, True),
        ("a /* ** / one */ = 1 -- two\n AND b=2", {"a": "1", "b": "2"}, True),
        ("a = --5", {"a": "5"}, True),
    ],
)
def test_it_knows_rocketmqs_rules(
    expression: str, properties: Mapping[str, str], is_match: bool | None
) -> None:
    if is_match is None:
        with pytest.raises(ExpressionError, match="is not allowed here"):
            compile_expression(expression)
    else:
        assert matches(expression, **properties) is is_match


@pytest.mark.parametrize(
    ("expression", "place", "says"),
    [
        ("", "line 1, column 1", "found the end"),
        ("a = = 3", "line 1, column 5", "found '='"),
        ("a >", "line 1, column 4", "expected a property's name"),
        ("a LIKE 'x%'", "line 1, column 3", "found 'LIKE'"),
        ("a = 1 b = 2", "line 1, column 7", "found 'b'"),
        ("a = 1\nAND b != 2", "line 2, column 7", "write = or <>"),
        ("a = 'x", "line 1, column 5", "has no end"),
        ('a = "x"', "line 1, column 5", "single quotes"),
        ("a = 1 /* x", "line 1, column 7", "no */"),
        ("a + 1 > 2", "line 1, column 3", "found '+'"),
        ("(a = 1", "line 1, column 7", "found the end"),
        ("a IN (1)", "line 1, column 7", "a text in single quotes"),
        ("a IN ('x' 'y')", "line 1, column 11", ", or )"),
        ("'x' IN ('x')", "line 1, column 5", "takes the name of a property"),
        ("a IS 5", "line 1, column 6", "NULL or NOT NULL"),
        ("a = NULL", "line 1, column 3", "IS NULL"),
        ("a <> NULL", "line 1, column 3", "IS NULL"),
        ("TRUE = 'x'", "line 1, column 6", "does not compare"),
        ("a > 'x'", "line 1, column 3", "'x' has no order"),
        ("a > TRUE", "line 1, column 3", "TRUE has no order"),
        ("a > 1 > 2", "line 1, column 7", "has no order"),
        ("a BETWEEN 5 AND 3", "line 1, column 3", "5 is above 3"),
        ("a BETWEEN NULL AND 3", "line 1, column 3", "not NULL"),
        ("a BETWEEN 'b' AND 3", "line 1, column 3", "'b' has no order"),
        ("a BETWEEN 3", "line 1, column 12", "expected AND"),
        ("a CONTAINS b", "line 1, column 12", "a text in single quotes"),
        ("5", "line 1, column 1", "neither true nor false"),
        ("a = 1 AND 'x'", "line 1, column 1", "'x' is neither true nor false"),
        ("a > 9223372036854775808", "line 1, column 5", "does not fit 64 bits"),
        ("a > 0.0", "line 1, column 5", "not a decimal"),
        ("a > 1e400", "line 1, column 5", "not a decimal"),
        ("a = 05", "line 1, column 6", "found '5'"),
        ("(" * (DEPTH_MAX + 1), f"line 1, column {DEPTH_MAX + 1}", "levels"),
        ("NOT " * 3_000 + "a", "line 1, column", "levels"),
        ("a = 1" + " = TRUE" * DEPTH_MAX, "line 1, column", "levels"),
        (" OR ".join(["a = 1"] * TERMS_MAX), "line 1, column 1", f"at most {TERMS_MAX} terms"),
        ("a = '" + "x" * LENGTH_MAX + "'", "the expression has", "characters"),
    ],
)
def test_it_says_what_is_wrong_and_where(expression: str, place: str, says: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        compile_expression(expression)
    assert place in str(raised.value)
    assert says in str(raised.value)
    with pytest.raises(ExpressionError, match="."):  # remembered
        compile_expression(expression)


def test_it_takes_long_lists_and_chains() -> None:
    ids = ", ".join(f"'{number:06d}'" for number in range(1_000))
    assert matches(f"id IN ({ids})", id="000999")
    assert matches(" OR ".join(f"a = {number}" for number in range(TERMS_MAX // 2)), a="249")


def test_it_compiles_a_text_once() -> None:
    assert compile_expression("a = 1") is compile_expression("a = 1")
