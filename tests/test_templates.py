"""Templates: parts state what they take."""

from __future__ import annotations

import pytest

from tests.support.template_names import parts, stated, taken


@pytest.mark.parametrize("name", parts())
def test_a_part_states_its_inputs(name: str) -> None:
    """Its head has a line for each name that it takes from the context, and for no other."""
    inputs = stated(name)
    assert inputs is not None, (
        "it begins with {% comment %}, a sentence, a line for each input, {% endcomment %}"
    )
    assert set(inputs) == taken(name)
