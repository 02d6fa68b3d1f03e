"""Rendering of bodies that producers may have filled with anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.operation.message_view import render_body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"plain", ("plain", "text", False)),
        (b"", ("", "text", False)),
        (
            '{"a":1,"städte":["杭州"]}'.encode(),
            ('{\n  "a": 1,\n  "städte": [\n    "杭州"\n  ]\n}', "json", False),
        ),
        (b"{not json", ("{not json", "text", False)),
        (b"\x00\xffAB", ("00000000  00 ff 41 42                                      ..AB", "hex", False)),
        (b"bell\x07", ("00000000  62 65 6c 6c 07                                   bell.", "hex", False)),
        (b"x" * 101, ("x" * 100, "text", True)),
    ],
)
def test_it_renders(body: bytes, expected: tuple[str, str, bool]) -> None:
    assert render_body(body, 100) == expected


def test_it_cuts_between_characters() -> None:
    assert render_body(("x" + "州" * 50).encode(), 100) == ("x" + "州" * 33, "text", True)


@given(st.binary(max_size=300), st.integers(1, 200))
def test_it_never_raises_and_stays_printable(body: bytes, limit: int) -> None:
    text, body_format, cut = render_body(body, limit)
    assert body_format in ("json", "text", "hex")
    assert not any(ord(letter) < 32 and letter not in "\t\r\n" for letter in text)
    assert cut or len(body) <= limit or body_format == "hex"


def test_it_survives_deep_json() -> None:
    text, body_format, _ = render_body(b"[" * 100_000, 256 * 1024)
    assert body_format == "text" and text.startswith("[[[")
