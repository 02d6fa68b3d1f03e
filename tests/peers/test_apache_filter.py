"""brokerd's SQL92 filters against Apache RocketMQ's own parser and evaluator, on random expressions."""

from __future__ import annotations

import random
import subprocess
from base64 import b64encode
from collections import Counter

import pytest

from brokerd.filter.sql_parser import compile_expression
from brokerd.filter.sql_tokens import ExpressionError
from tests.support import apache_cluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

Case = tuple[str, dict[str, str]]
SOURCE = apache_cluster.PROJECT / "Filter.java"
NAMES = ["a", "b", "TAGS", "$x_1"]
VALUES = [
    "1",
    "5",
    "-3",
    "+5",
    "2.5",
    " 5",
    "5d",
    "0x1p3",
    "NaN",
    "-0.0",
    "0.0",
    "3000000000",
    "9223372036854775808",
]
VALUES += ["true", "FALSE", "x", "it's", "中文", "٣", "1e999", "5L", "Infinity"]
NUMBERS = [
    "0",
    "5",
    "7L",
    "3000000000",
    "9223372036854775807",
    "9223372036854775808",
    "2.5",
    "5.",
    ".5",
    "1e1",
    "0.0",
]
SIGNS = [
    "=",
    "<>",
    ">",
    ">=",
    "<",
    "<=",
    "AND",
    "or",
    "NOT",
    "IS",
    "NULL",
    "TRUE",
    "false",
    "BETWEEN",
    "IN",
    "(",
    ")",
]
SIGNS += [
    ",",
    "+",
    "-",
    "CONTAINS",
    "StartsWith",
    "ENDSWITH",
    "--",
    "/* x */",
    "/*",
    "'",
    "!",
    "LIKE",
    "05",
    "5e",
]

# What is refused for text behind a whole expression, which is cut off there; the words are all read first here.
BEHIND = ("or the end, found", "is not allowed here", "no */", "has no end", "is not a comparison")


def literal(rng: random.Random) -> str:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(["TRUE", "FALSE", "NULL"])
    return rng.choice(NUMBERS) if kind < 4 else text(rng)


def text(rng: random.Random) -> str:
    return "'" + rng.choice([*VALUES, ""]).replace("'", "''") + "'"


def operand(rng: random.Random) -> str:
    kind = rng.randrange(10)
    if kind < 5:
        return rng.choice(NAMES)
    if kind == 5:
        return rng.choice(["-", "+", "- -", "NOT "]) + operand(rng)
    return literal(rng)


def condition(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(12) if depth else rng.randrange(8)
    negated = rng.choice(["", "NOT "])
    name = rng.choice(NAMES) if rng.random() < 0.9 else operand(rng)
    if kind < 4:
        return f"{operand(rng)} {rng.choice(['=', '<>', '>', '>=', '<', '<='])} {operand(rng)}"
    if kind == 4:
        return f"{name} {negated}BETWEEN {operand(rng)} AND {operand(rng)}"
    if kind == 5:
        return f"{name} {negated}IN ({', '.join(text(rng) for _ in range(rng.randint(1, 6)))})"
    if kind == 6:
        return f"{name} {negated}{rng.choice(['CONTAINS', 'STARTSWITH', 'ENDSWITH'])} {text(rng)}"
    if kind == 7:
        return f"{operand(rng)} IS {negated}NULL"
    inner = condition(rng, depth - 1)
    if kind == 8:
        return f"({inner}) {rng.choice(['=', '<>'])} {operand(rng)}"
    if kind == 9:
        return f"{rng.choice(['NOT ', '-', ''])}({inner})"
    return f"{inner} {rng.choice(['AND', 'OR'])} {condition(rng, depth - 1)}"


def soup(rng: random.Random) -> str:
    """Words in any order: mostly no expression at all."""
    words = (rng.choice([*SIGNS, *NAMES, *NUMBERS, "'x'"]) for _ in range(rng.randint(1, 6)))
    return rng.choice(["", "a = 1 AND "]) + " ".join(words)


def cases(count: int) -> list[Case]:
    rng = random.Random(92)
    found = []
    for number in range(count):
        expression = soup(rng) if number % 4 == 0 else condition(rng, 3)
        present = {name: rng.choice(VALUES) for name in NAMES if rng.random() < 0.7}
        found.append((expression, present))
    return found


def ours(expression: str, properties: dict[str, str]) -> str:
    try:
        return "MATCH" if compile_expression(expression).matches(properties) else "NONE"
    except ExpressionError as error:
        return "BEHIND" if any(words in str(error) for words in BEHIND) else "REFUSED"


def test_it_filters_as_apache_does() -> None:
    asked = cases(6_000)
    lines = [
        "\t".join(b64encode(word.encode()).decode() for word in (expression, *sum(properties.items(), ())))
        for expression, properties in asked
    ]
    class_path = apache_cluster.build()
    answers = subprocess.run(
        ["java", "-cp", class_path, str(SOURCE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout.split()
    assert len(answers) == len(asked)
    seen = Counter(answers)
    assert min(seen["MATCH"], seen["NONE"], seen["REFUSED"]) > 300, seen
    differ = [
        (expression, properties, theirs, mine)
        for (expression, properties), theirs in zip(asked, answers, strict=True)
        if (mine := ours(expression, properties)) not in (theirs, "BEHIND")
    ]
    assert differ == []
    behind = sum(ours(expression, properties) == "BEHIND" for expression, properties in asked)
    assert behind < len(asked) / 5
