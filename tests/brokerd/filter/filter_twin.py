"""A second way to the same answers: expressions as nested tuples, rendered to SQL92 and evaluated with Python's None.

("and", a, b)  ("or", a, b)  ("not", a)  ("=", operand, operand)  (">", …)  ("between", name, low, high)
("in", name, texts, negated)  ("null", name, negated)  ("contains", name, text, negated)
operands: ("name", "a")  ("text", "x")  ("whole", 5)  ("decimal", 1.5)  ("flag", True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Node = tuple[Any, ...]
NAMES = ("a", "b", "TAGS")
WORDS = {"contains": "CONTAINS", "starts": "STARTSWITH", "ends": "ENDSWITH"}


class DoesNotFit(Exception):
    """A property is not what it is compared with: no match at all."""


def rendered(node: Node) -> str:
    kind, *parts = node
    if kind in ("name", "whole", "decimal"):
        return str(parts[0])
    if kind == "flag":
        return str(parts[0]).upper()
    if kind == "text":
        return quoted(parts[0])
    if kind in ("and", "or"):
        return f"({rendered(parts[0])} {kind.upper()} {rendered(parts[1])})"
    if kind == "not":
        return f"(not ({rendered(parts[0])}))"
    if kind == "between":
        return f"{parts[0]} {'NOT ' if parts[3] else ''}BETWEEN {parts[1]} AND {parts[2]}"
    if kind == "in":
        return f"{parts[0]} {'NOT ' if parts[2] else ''}IN ({', '.join(map(quoted, parts[1]))})"
    if kind == "null":
        return f"{parts[0]} IS {'NOT ' if parts[1] else ''}NULL"
    if kind in WORDS:
        return f"{parts[0]} {'Not ' if parts[2] else ''}{WORDS[kind]} {quoted(parts[1])}"
    return f"{rendered(parts[0])} {kind} {rendered(parts[1])}"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def expected(node: Node, properties: Mapping[str, str]) -> bool:
    try:
        return truth(node, properties) is True
    except DoesNotFit:
        return False


def truth(node: Node, properties: Mapping[str, str]) -> bool | None:
    """TRUE, FALSE or None; the right of AND and OR is looked at only when the left does not decide."""
    kind, *parts = node
    if kind == "name":
        return None if properties.get(parts[0]) is None else False
    if kind == "not":
        inner = truth(parts[0], properties)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        decides = kind == "or"
        values = []
        for part in parts:
            values.append(truth(part, properties))
            if values[-1] is decides:
                return decides
        return None if None in values else not decides
    if kind == "between":
        name, low, high, negated = parts
        ends = [(">=", low), ("<=", high)] if not negated else [("<", low), (">", high)]
        halves = [(sign, ("name", name), ("whole", end)) for sign, end in ends]
        return truth(("or" if negated else "and", *halves), properties)
    if kind in ("in", *WORDS, "null"):
        return of_text(node, properties)
    return of_comparison(node, properties)


def of_text(node: Node, properties: Mapping[str, str]) -> bool | None:
    kind, name, *rest = node
    value = properties.get(name)
    if kind == "null":
        return (value is None) != rest[0]
    wanted, negated = rest
    if kind == "in":
        return None if value is None else (value in wanted) != negated
    if value is None or wanted == "":
        return False
    found = {"contains": wanted in value, "starts": value.startswith(wanted), "ends": value.endswith(wanted)}
    return found[kind] != negated


def of_comparison(node: Node, properties: Mapping[str, str]) -> bool | None:
    sign, left, right = node
    if sign == "<>":
        same = of_comparison(("=", left, right), properties)
        return None if same is None else not same
    values = [properties.get(part[1]) if part[0] == "name" else part[1] for part in (left, right)]
    if sign == "=" and values[1] is None:
        return values[0] is None
    if None in values:
        return False if sign == "=" and values[1] is None else None
    if left[0] == right[0] == "name" and sign != "=":
        values = [as_number(value, float) for value in values]
    elif "name" in (left[0], right[0]):
        literal = right if left[0] == "name" else left
        position = 0 if left[0] == "name" else 1
        values[position] = like_literal(values[position], literal[0], position)
    return {
        "=": values[0] == values[1],
        ">": not isinstance(values[0], str) and values[0] > values[1],
        ">=": not isinstance(values[0], str) and values[0] >= values[1],
        "<": not isinstance(values[0], str) and values[0] < values[1],
        "<=": not isinstance(values[0], str) and values[0] <= values[1],
    }[sign]


def like_literal(value: str, kind: str, position: int) -> Any:
    if kind == "flag":
        if position == 1:
            raise DoesNotFit
        return value.lower() == "true"
    if kind == "whole":
        return as_number(value, int)
    return as_number(value, float) if kind == "decimal" else value


def as_number(value: str, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise DoesNotFit from None


# Values of properties: numbers with and without a point, words of both kinds, and some that are nearly numbers.
TEXTS = st.sampled_from(["1", "5", "-3", "2.5", "7", "true", "False", "x", "it's", "5 x", "abc"])
WHOLES = st.tuples(st.just("whole"), st.integers(0, 9))
DECIMALS = st.tuples(st.just("decimal"), st.sampled_from([0.5, 2.5, 7.0]))
NAMED = st.tuples(st.just("name"), st.sampled_from(NAMES))
TEXTUAL = st.tuples(st.just("text"), TEXTS)
FLAGS = st.tuples(st.just("flag"), st.booleans())
NAME = st.sampled_from(NAMES)
EQUALITY = st.sampled_from(["=", "<>"])
LEAVES = st.one_of(
    NAMED,
    st.tuples(EQUALITY, NAMED, WHOLES | DECIMALS | TEXTUAL | FLAGS | NAMED),
    st.tuples(EQUALITY, WHOLES | DECIMALS | TEXTUAL | FLAGS, NAMED),
    st.tuples(st.sampled_from([">", ">=", "<", "<="]), NAMED, WHOLES | DECIMALS | NAMED),
    st.tuples(st.sampled_from([">", ">=", "<", "<="]), WHOLES | DECIMALS, NAMED),
    st.tuples(st.just("between"), NAME, st.integers(0, 4), st.integers(4, 9), st.booleans()),
    st.tuples(st.just("in"), NAME, st.lists(TEXTS, min_size=1, max_size=3), st.booleans()),
    st.tuples(st.just("null"), NAME, st.booleans()),
    st.tuples(st.sampled_from(sorted(WORDS)), NAME, TEXTS | st.just(""), st.booleans()),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner),
    max_leaves=8,
)
MESSAGES = st.dictionaries(st.sampled_from(NAMES), TEXTS)
