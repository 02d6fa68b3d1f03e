"""Templates: parts state what they take, and what a page decides is what it shows."""

from __future__ import annotations

import re

import pytest

from tests.support.template_names import FOLDER, ladders, parts, stated, taken

# Template → the value by whose words it still has a ladder of three branches or more, each with markup of its own.
# Only ever fewer: what a value is called, and how bad it is, is known in Python.
LADDERS = {
    ("broker/_job_drain.html", "job.state"): "a banner for each state, with its own counts",
    ("group/_job_offsets.html", "job.state"): "a banner for each state, with its own counts",
    ("operation/_job_config.html", "job.state"): "a banner for each state, with its own counts",
    ("operation/plan.html", "state"): "a banner for each state, with its own buttons",
    ("report/group_report.html", "each.kind"): "sentences with figures in the reader's zone",
    ("deadletter/_diff_dead_letters.html", "plan.params.target"): "with the parameter that the target has",
}


@pytest.mark.parametrize("name", parts())
def test_a_part_states_its_inputs(name: str) -> None:
    """Its head has a line for each name that it takes from the context, and for no other."""
    inputs = stated(name)
    assert inputs is not None, (
        "it begins with {% comment %}, a sentence, a line for each input, {% endcomment %}"
    )
    assert set(inputs) == taken(name)


def test_words_of_a_value_are_not_chosen_by_templates() -> None:
    names = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html"))
    assert {(name, value) for name in names for value in ladders(name)} == set(LADDERS)


def test_a_text_with_a_per_cent_sign_is_given_by_translate() -> None:
    """`_()` in another tag doubles the sign."""
    found = {
        str(path.relative_to(FOLDER)): texts
        for path in FOLDER.rglob("*.html")
        if (texts := re.findall(r"""_\(("[^"\n]*%[^"\n]*"|'[^'\n]*%[^'\n]*')\)""", path.read_text()))
    }
    assert found == {}
