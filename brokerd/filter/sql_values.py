"""Values of a SQL92 filter and how two of them compare. Pure.

Properties are text; literals are text, TRUE, FALSE, NULL, whole numbers of 32 or 64 bits, or doubles. Text against a
literal is read as the literal's type, by Java's rules. Source: semantics §3.3 (`ComparisonExpression.java`).
"""

from __future__ import annotations

import math
import re

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DOUBLE_MIN = 5e-324  # Double.MIN_VALUE: decimals start there, so 0.0 is not a literal

DIGITS_SAFE = 9  # fit 32 bits
WHOLE = re.compile(r"[+-]?\d+")  # no blanks, as Integer.valueOf
# Double.valueOf: blanks around it, `Infinity`, `NaN`, `1.5d`, and C's hexadecimal doubles.
BLANKS = "".join(map(chr, range(33)))
DECIMAL = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


class Long(int):
    """A whole number that Java holds in 64 bits; a plain int is one of 32."""


Value = str | bool | int | float | None  # a Long is an int


class EvaluationError(ValueError):
    """A message's property does not fit the comparison: the message does not match, whatever the rest gives."""


def whole_number(text: str, minimum: int, maximum: int) -> int:
    if len(text) <= DIGITS_SAFE and text.isdecimal():
        return int(text)
    if WHOLE.fullmatch(text) is None:
        raise EvaluationError(f"{text!r} is not a whole number")
    try:
        value = int(text)
    except ValueError:  # thousands of digits
        raise EvaluationError("a number of thousands of digits") from None
    if not minimum <= value <= maximum:
        raise EvaluationError(f"{text!r} is too large for its type")
    return value


def double(text: str) -> float:
    stripped = text.strip(BLANKS)
    match = DECIMAL.fullmatch(stripped)
    if match is not None:
        return float(match[1])
    match = HEXADECIMAL.fullmatch(stripped)
    if match is None:
        raise EvaluationError(f"{text!r} is not a number")
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return -math.inf if stripped[0] == "-" else math.inf


def converted(text: str, wanted: type) -> Value:
    """Convert text to the type of what it is compared with. Raises EvaluationError."""
    if wanted is bool:
        return text.lower() == "true"
    if wanted is int:
        return whole_number(text, INT_MIN, INT_MAX)
    if wanted is Long:
        return Long(whole_number(text, LONG_MIN, LONG_MAX))
    return double(text)


def compare_doubles(left: float, right: float) -> int:
    """Double.compareTo: -0.0 before 0.0, NaN behind everything and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left != left or right != right:
        return (left != left) - (right != right)
    return 0 if left else int(math.copysign(1, left) - math.copysign(1, right)) // 2


def compare(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """-1, 0 or 1; -1 too for types that do not compare (a boolean with a number). Raises EvaluationError."""
    left_type, right_type = type(left), type(right)
    if left_type is not right_type:
        if left_type is bool:
            if right_type is str:
                raise EvaluationError("a boolean on the left does not compare with text")
            return -1
        if left_type is str:
            left = converted(str(left), right_type)  # type: ignore[assignment]
        elif right_type is str:
            right = converted(str(right), left_type)  # type: ignore[assignment]
        elif right_type is bool:
            return -1
        elif float in (left_type, right_type):
            left, right = float(left), float(right)
    if isinstance(left, float) and isinstance(right, float):
        return compare_doubles(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]


def compare_in_order(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """For > >= < <=: two texts are compared as doubles."""
    if type(left) is str and type(right) is str:
        return compare_doubles(double(left), double(right))
    return compare(left, right)
