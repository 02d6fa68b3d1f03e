from __future__ import annotations

import pytest

from brokerd.filter.sql_tokens import ExpressionError, place, tokens_of


def test_it_cuts_a_filter_into_tokens() -> None:
    found = [(token.kind, token.text) for token in tokens_of("color = 'it''s' and price >= 1.5")]
    assert found == [
        ("word", "color"),
        ("=", "="),
        ("string", "'it''s'"),
        ("AND", "and"),
        ("word", "price"),
        (">=", ">="),
        ("double", "1.5"),
        ("end", ""),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n  != 1", "line 2, column 3: '!=' is not a comparison; write = or <>"),
        ("a = 'x", "line 1, column 5: the text in single quotes has no end"),
        ('a = "x"', "line 1, column 5: text stands in single quotes, not in double ones"),
    ],
)
def test_it_names_the_place_of_what_it_cannot_read(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        tokens_of(text)
    assert str(caught.value) == message


def test_it_counts_lines_and_columns_from_one() -> None:
    assert (place("ab\ncd", 0), place("ab\ncd", 4)) == ("line 1, column 1", "line 2, column 2")
