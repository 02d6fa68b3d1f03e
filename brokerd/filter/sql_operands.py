"""The parts of a SQL92 filter as closures over a message's properties, and which parts fit together.

Three-valued: TRUE, FALSE and None for unknown, as a missing property makes it; what goes wrong while a message is
looked at raises EvaluationError through everything. Source: semantics §3.3 (`LogicExpression.java`,
`ComparisonExpression.java`, `UnaryExpression.java`); the checks are those RocketMQ makes when it compiles.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from brokerd.filter.sql_values import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    Long,
    Value,
    compare,
    compare_in_order,
    converted,
    whole_number,
)

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class OperandError(ValueError):
    """Parts that do not go together; the parser adds where."""


class Kind(Enum):
    CONSTANT = auto()
    PROPERTY = auto()
    NEGATED = auto()  # - of something: a number or unknown
    BOOLEAN = auto()


@dataclass(frozen=True, slots=True)
class Operand:
    """One part: `shown` for error texts, `terms` and `depth` of what it is made of, for the limits."""

    kind: Kind
    evaluate: Evaluate
    shown: str  # of a property its name
    terms: int = 1
    depth: int = 1
    value: Value = None  # of a constant and of a negated number

    @property
    def is_boolean(self) -> bool:
        return self.kind is Kind.BOOLEAN or (
            self.kind is Kind.CONSTANT and (self.value is None or isinstance(self.value, bool))
        )


def constant(value: Value, shown: str) -> Operand:
    return Operand(Kind.CONSTANT, lambda _: value, shown, value=value)


def property_of(name: str) -> Operand:
    def evaluate(properties: Properties) -> Value:
        return properties.get(name) or None  # Java drops properties without a value

    return Operand(Kind.PROPERTY, evaluate, name)


def joined(evaluate: Evaluate, shown: str, *parts: Operand) -> Operand:
    """Return a boolean made of parts."""
    terms = sum(part.terms for part in parts)
    return Operand(Kind.BOOLEAN, evaluate, shown, terms, 1 + max(part.depth for part in parts))


def as_boolean(part: Operand) -> Operand:
    """An operand that stands alone or next to AND, OR, NOT. A property there is never TRUE: its value is text."""
    if part.is_boolean:
        return part
    if part.kind is not Kind.PROPERTY:
        raise OperandError(f"{part.shown} is neither true nor false")
    inner = part.evaluate
    return joined(lambda properties: None if inner(properties) is None else False, part.shown, part)


# Logic


def any_of(parts: Sequence[Operand]) -> Operand:
    return _decided_by(True, parts, "… OR …")


def all_of(parts: Sequence[Operand]) -> Operand:
    return _decided_by(False, parts, "… AND …")


def _decided_by(decisive: bool, parts: Sequence[Operand], shown: str) -> Operand:
    """OR is TRUE as soon as one part is, AND is FALSE as soon as one is; else an unknown part makes it unknown."""
    evaluates = tuple(as_boolean(part).evaluate for part in parts)

    def evaluate(properties: Properties) -> Value:
        outcome: Value = not decisive
        for each in evaluates:
            value = each(properties)
            if value is decisive:
                return decisive
            if value is None:
                outcome = None
        return outcome

    return joined(evaluate, shown, *parts)


def negation(part: Operand) -> Operand:
    """NOT."""
    inner = as_boolean(part).evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return joined(evaluate, f"NOT {part.shown}", part)


def minus(part: Operand) -> Operand:
    """- of a number; of anything else it is unknown. RocketMQ's checks do not take it for a constant."""
    inner = part.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        if type(value) is int or type(value) is float:
            return -value
        return Long(-value) if isinstance(value, Long) else None

    value = None if part.kind is Kind.PROPERTY or part.value is None else evaluate({})
    return Operand(Kind.NEGATED, evaluate, f"-{part.shown}", part.terms, part.depth + 1, value)


# Comparisons


def equal(left: Operand, right: Operand) -> Operand:
    for part in (left, right):
        if part.kind is Kind.CONSTANT and part.value is None:
            raise OperandError("NULL compares with nothing; it takes IS NULL or IS NOT NULL")
    both_constant = left.kind is right.kind is Kind.CONSTANT
    if both_constant and left.is_boolean and not right.is_boolean:
        raise OperandError(f"{left.shown} does not compare with {right.shown}")
    return _equal(left, right)


def _equal(left: Operand, right: Operand) -> Operand:
    if left.kind is Kind.PROPERTY and right.kind is Kind.CONSTANT and right.value is not None:
        return joined(_equal_to(left.shown, right.value), f"{left.shown} = …", left, right)
    left_of, right_of = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Value:
        left_value, right_value = left_of(properties), right_of(properties)
        if left_value is None:
            return True if right_value is None else None
        return False if right_value is None else compare(left_value, right_value) == 0

    return joined(evaluate, f"{left.shown} = …", left, right)


def _equal_to(name: str, value: str | bool | int | float) -> Evaluate:
    """Compare a property with a literal, the usual form, in fewer steps: it runs once per message."""
    wanted = type(value)

    def as_text(properties: Properties) -> Value:
        text = properties.get(name)
        return text == value if text else None

    def converts(properties: Properties) -> Value:
        text = properties.get(name)
        return converted(text, wanted) == value if text else None

    return as_text if wanted is str else converts


def not_equal(left: Operand, right: Operand) -> Operand:
    return negation(equal(left, right))


def is_null(part: Operand) -> Operand:
    return _equal(part, constant(None, "NULL"))


def is_not_null(part: Operand) -> Operand:
    return negation(is_null(part))


ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def in_order(sign: str, left: Operand, right: Operand) -> Operand:
    for part in (left, right):
        is_number = type(part.value) in (int, Long, float)
        if part.kind is Kind.BOOLEAN or (part.kind is Kind.CONSTANT and not is_number):
            raise OperandError(f"{part.shown} has no order; {sign} takes numbers and properties")
    holds, shown = ORDERS[sign], f"{left.shown} {sign} …"
    if left.kind is Kind.PROPERTY and type(right.value) in (int, Long):
        return joined(_whole_number_in_order(left.shown, right.value, holds), shown, left, right)
    left_of, right_of = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Value:
        left_value = left_of(properties)
        if left_value is None:
            return None
        right_value = right_of(properties)
        return None if right_value is None else holds(compare_in_order(left_value, right_value), 0)

    return joined(evaluate, shown, left, right)


def _whole_number_in_order(name: str, value: Value, holds: Callable[[Any, Any], bool]) -> Evaluate:
    """Compare the usual form in fewer steps, as _equal_to."""
    lowest, highest = (INT_MIN, INT_MAX) if type(value) is int else (LONG_MIN, LONG_MAX)

    def evaluate(properties: Properties) -> Value:
        text = properties.get(name)
        return holds(whole_number(text, lowest, highest), value) if text else None

    return evaluate


def between(part: Operand, low: Operand, high: Operand) -> Operand:
    if low.kind is high.kind is Kind.CONSTANT:
        if low.value is None or high.value is None:
            raise OperandError("BETWEEN takes numbers, not NULL")
        if not (isinstance(low.value, str) or isinstance(high.value, str)) and low.value > high.value:
            raise OperandError(f"BETWEEN takes the smaller number first: {low.shown} is above {high.shown}")
    return all_of((in_order(">=", part, low), in_order("<=", part, high)))


def not_between(part: Operand, low: Operand, high: Operand) -> Operand:
    return any_of((in_order("<", part, low), in_order(">", part, high)))


def is_in(part: Operand, texts: Sequence[str], *, negated: bool) -> Operand:
    if part.kind is not Kind.PROPERTY:
        raise OperandError(f"IN takes the name of a property on its left, not {part.shown}")
    name, wanted = part.shown, frozenset(texts)

    def evaluate(properties: Properties) -> Value:
        text = properties.get(name)
        return (text in wanted) is not negated if text else None

    return joined(evaluate, f"{part.shown} IN …", part)


# What text must hold: (value, searched for) → TRUE or FALSE.
TEXT_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def text_test(word: str, part: Operand, searched: str, *, negated: bool) -> Operand:
    """Both forms are FALSE for what is missing or no text, and when nothing is searched for."""
    inner, test = part.evaluate, TEXT_TESTS[word]

    def evaluate(properties: Properties) -> Value:
        if not searched:
            return False
        value = inner(properties)
        return type(value) is str and test(value, searched) is not negated

    return joined(evaluate, f"{part.shown} {word} …", part)
