"""Templates are read without their indentation."""

from __future__ import annotations

import pytest
from django.template import engines

from console.templatetags.loader import unindented


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ('<tr>\n    <td\n\tclass="num"\n    >1</td>\n</tr>', '<tr>\n<td\nclass="num"\n>1</td>\n</tr>'),
        ("a  b\n\n  c", "a  b\n\nc"),
        ("  <p>\n  <pre id=x>\n  kept\n</pre>\n  <b>", "  <p>\n<pre id=x>\n  kept\n</pre>\n<b>"),
        ("<textarea\n  name=t>\n  kept</textarea>\n  end", "<textarea\n  name=t>\n  kept</textarea>\nend"),
        ("<preface>\n  cut</preface>", "<preface>\ncut</preface>"),
    ],
)
def test_lines_lose_what_stands_before_them(source: str, read: str) -> None:
    assert unindented(source) == read


def test_pages_are_made_of_unindented_templates() -> None:
    template = engines["django"].get_template("_sort_th.html").template  # type: ignore[attr-defined]
    assert "\n  class=" not in template.source and "\nclass=" in template.source
