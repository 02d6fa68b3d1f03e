"""Lines of CSV that a spreadsheet cannot run."""

import csv

import pytest

from console.web.spreadsheet import csv_line


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_text_that_would_be_a_formula_gets_a_quote(text: str) -> None:
    (row,) = csv.reader([csv_line(["orders", text])])
    assert row == ["orders", f"'{text}"]


def test_figures_stay_figures_and_unknown_is_empty() -> None:
    assert csv_line([-5, 0.5, None, "a,b", "it's"]) == '-5,0.5,,"a,b",it\'s\r\n'
