"""Parse a SQL92 filter: by descent through RocketMQ's grammar, to one closure over a message's properties.

    selector := and (OR and)*          and := equality (AND equality)*
    equality := comparison ("=" comparison | "<>" comparison | IS NULL | IS NOT NULL)*
    comparison := unary ((">" | ">=" | "<" | "<=") unary | [NOT] BETWEEN unary AND unary
                 | [NOT] IN "(" text ("," text)* ")" | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text)*
    unary := ("+" | "-" | NOT) unary | primary
    primary := text | number | TRUE | FALSE | NULL | name | "(" selector ")"

`NOT a = 1` is `(NOT a) = 1`, as there. Unlike RocketMQ's, text behind a whole expression is refused, where `a LIKE
'x'` would be taken as `a` and match nothing. Source: semantics §3.3 (`SelectorParser.jj`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from brokerd.filter import sql_operands as operands
from brokerd.filter.sql_operands import Operand, OperandError, Properties
from brokerd.filter.sql_tokens import ExpressionError, Token, place, tokens_of
from brokerd.filter.sql_values import DOUBLE_MIN, INT_MAX, LONG_MAX, EvaluationError, Long

LENGTH_MAX = 16_384  # characters: a list of hundreds of ids after IN
TERMS_MAX = 500  # names and literals; a list after IN is one
DEPTH_MAX = 50  # parentheses and operators inside of each other
CACHED = 100  # as in RocketMQ

VALUE = "a property's name, a number, 'text', TRUE, FALSE, NULL, NOT or ("
OPERATOR = "AND, OR, a comparison (= <> > >= < <=, BETWEEN, IN, IS NULL, CONTAINS …) or the end"


class Expression:
    """A compiled filter. `terms` is the cost of one evaluation, `names` the properties that it reads."""

    __slots__ = ("_evaluate", "names", "terms")

    def __init__(self, operand: Operand, names: frozenset[str]) -> None:
        self._evaluate = operand.evaluate
        self.terms = operand.terms
        self.names = names

    def matches(self, properties: Properties) -> bool:
        """TRUE matches; FALSE, unknown and a property that does not fit its comparison do not."""
        try:
            return self._evaluate(properties) is True
        except EvaluationError:
            return False


def compile_expression(text: str) -> Expression:
    """Raise ExpressionError with where and what; the last hundred texts are cached, good or bad."""
    compiled = _compiled(text) if len(text) <= LENGTH_MAX else too_long(text)
    if isinstance(compiled, ExpressionError):
        raise ExpressionError(str(compiled))
    return compiled


def too_long(text: str) -> ExpressionError:
    return ExpressionError(f"the expression has {len(text)} characters, at most {LENGTH_MAX} are taken")


@lru_cache(maxsize=CACHED)
def _compiled(text: str) -> Expression | ExpressionError:
    try:
        parser = Parser(text)
        return Expression(parser.parse(), frozenset(parser.names))
    except ExpressionError as error:
        return error.with_traceback(None)


class Parser:
    """One text. Every method reads one rule of the grammar and leaves `_token` behind it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._index = 0
        self._nesting = 0
        self.names: set[str] = set()

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _error(self, reason: str, token: Token) -> ExpressionError:
        return ExpressionError(f"{place(self._text, token.position)}: {reason}")

    def _expected(self, wanted: str) -> ExpressionError:
        return self._error(f"expected {wanted}, found {self._token.shown}", self._token)

    def _take(self, *kinds: str) -> bool:
        """Pass these tokens if all of them come next."""
        ahead = self._tokens[self._index : self._index + len(kinds)]
        if tuple(token.kind for token in ahead) != kinds:
            return False
        self._index += len(kinds)
        return True

    def _made(self, token: Token, make: Callable[..., Operand], *parts: Any, **options: Any) -> Operand:
        """Return what `make` returns, within the limits; its complaints get their place."""
        try:
            made = make(*parts, **options)
        except OperandError as error:
            raise self._error(str(error), token) from error
        if made.depth > DEPTH_MAX or made.terms > TERMS_MAX:
            raise self._error(f"at most {TERMS_MAX} terms and {DEPTH_MAX} levels are taken", token)
        return made

    def parse(self) -> Operand:
        whole = self._selector()
        if self._token.kind != "end":
            raise self._expected(OPERATOR)
        return self._made(self._tokens[0], operands.as_boolean, whole)

    def _selector(self) -> Operand:
        return self._chain("OR", self._and, operands.any_of)

    def _and(self) -> Operand:
        return self._chain("AND", self._equality, operands.all_of)

    def _chain(
        self, word: str, part: Callable[[], Operand], make: Callable[[Sequence[Operand]], Operand]
    ) -> Operand:
        start = self._token
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else self._made(start, make, parts)

    def _equality(self) -> Operand:
        left = self._comparison()
        while True:
            token = self._token
            if self._take("="):
                left = self._made(token, operands.equal, left, self._comparison())
            elif self._take("<>"):
                left = self._made(token, operands.not_equal, left, self._comparison())
            elif self._take("IS", "NULL"):
                left = self._made(token, operands.is_null, left)
            elif self._take("IS", "NOT", "NULL"):
                left = self._made(token, operands.is_not_null, left)
            elif self._take("IS"):
                raise self._expected("NULL or NOT NULL")
            else:
                return left

    def _comparison(self) -> Operand:
        left = self._unary()
        while True:
            token = self._token
            if token.kind in operands.ORDERS:
                self._index += 1
                left = self._made(token, operands.in_order, token.kind, left, self._unary())
                continue
            negated = token.kind == "NOT"
            word = self._tokens[self._index + 1].kind if negated else token.kind
            if word not in ("BETWEEN", "IN", *operands.TEXT_TESTS):
                return left
            self._index += 2 if negated else 1
            if word == "BETWEEN":
                low = self._unary()
                if not self._take("AND"):
                    raise self._expected("AND and the larger number")
                make = operands.not_between if negated else operands.between
                left = self._made(token, make, left, low, self._unary())
            elif word == "IN":
                left = self._made(token, operands.is_in, left, self._texts(), negated=negated)
            else:
                left = self._made(token, operands.text_test, word, left, self._text_value(), negated=negated)

    def _texts(self) -> list[str]:
        """`('a', 'b')`."""
        if not self._take("("):
            raise self._expected("( and texts in single quotes")
        texts = [self._text_value()]
        while self._take(","):
            texts.append(self._text_value())
        if not self._take(")"):
            raise self._expected(", or )")
        return texts

    def _text_value(self) -> str:
        token = self._token
        if not self._take("string"):
            raise self._expected("a text in single quotes")
        return token.text[1:-1].replace("''", "'")

    def _unary(self) -> Operand:
        token = self._token
        if token.kind not in ("+", "-", "NOT"):
            return self._primary()
        self._index += 1
        self._deeper(token)
        part = self._unary()
        self._nesting -= 1
        if token.kind == "+":
            return part
        return self._made(token, operands.minus if token.kind == "-" else operands.negation, part)

    def _deeper(self, token: Token) -> None:
        """Count one level before the parser calls itself: the depth of what it makes is known only afterwards."""
        self._nesting += 1
        if self._nesting > DEPTH_MAX:
            raise self._error(f"at most {DEPTH_MAX} levels are taken", token)

    def _primary(self) -> Operand:
        token = self._token
        if token.kind == "string":
            return operands.constant(self._text_value(), token.text)
        if self._take("decimal"):
            return operands.constant(self._whole(token), token.text)
        if self._take("double"):
            return operands.constant(self._double(token), token.text)
        if self._take("TRUE") or self._take("FALSE"):
            return operands.constant(token.kind == "TRUE", token.kind)
        if self._take("NULL"):
            return operands.constant(None, "NULL")
        if self._take("word"):
            self.names.add(token.text)
            return operands.property_of(token.text)
        if not self._take("("):
            raise self._expected(VALUE)
        self._deeper(token)
        inner = self._selector()
        self._nesting -= 1
        if not self._take(")"):
            raise self._expected(f"{OPERATOR.removesuffix('the end')})")
        return inner

    def _whole(self, token: Token) -> int:
        value = int(token.text.rstrip("lL"))
        if value > LONG_MAX:
            raise self._error(f"{token.text} does not fit 64 bits", token)
        return value if value <= INT_MAX else Long(value)

    def _double(self, token: Token) -> float:
        value = float(token.text)
        if not DOUBLE_MIN <= value < math.inf:
            raise self._error(f"{token.text} is not a decimal from 4.9e-324 to 1.797e308", token)
        return value
