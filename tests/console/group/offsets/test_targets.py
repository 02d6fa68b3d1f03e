"""A target of an offset change is one row: form, REST, command line and plan read it from there."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from api.change.operation import OffsetPlanRequestSerializer
from console.group.management.commands.offsets import Command
from console.group.offsets.forms import OffsetChangeForm
from console.group.offsets.targets import TARGETS, command_line, read_params, request_of
from console.operation.errors import PlanRejected
from console.operation.plan.params import Given
from console.text.stored import as_json

EXACT = [{"topic": "orders", "broker_name": "broker-a", "queue_id": 1, "offset": 7}]
PARAMS: dict[str, dict[str, Any]] = {
    "earliest": {},
    "latest": {},
    "time": {"time_ms": 1_773_288_374_000},
    "offset": {"offset": 0},
    "shift": {"shift": -100},
    "like_group": {"like_group": "model"},
    "as_of": {"time_ms": 1_773_288_374_001},
    "undo": {"undo_plan": "op-abcdefgh"},
    "exact": {"offsets": EXACT},
    "file": {"offsets": EXACT},
    "clone": {"clone_of": "main/billing/eu"},
}


def test_these_are_the_targets() -> None:
    assert tuple(TARGETS) == tuple(PARAMS)


@pytest.mark.parametrize("name", TARGETS)
def test_each_is_read_alike_from_rest_and_the_command_it_is_shown_as(name: str) -> None:
    params = {"target": name, **PARAMS[name]}
    body = OffsetPlanRequestSerializer(data={"group": "billing", **params})
    assert body.is_valid(), body.errors
    words = shlex.split(command_line("billing", "local", read_params(Given(params))))
    assert words[:3] == ["manage.py", "offsets", "plan"]
    options = vars(Command().create_parser("manage.py", "offsets").parse_args(words[2:]))
    given = {
        key: options[key]
        for key in ("time_ms", "offset", "shift", "like_group", "undo_plan", "offsets", "clone_of")
    }
    assert as_json({key: value for key, value in given.items() if value is not None}) == PARAMS[name]
    assert request_of(read_params(Given(params))).target is TARGETS[name]


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.label])
def test_the_form_has_a_field_for_each_value(name: str) -> None:
    target, form = TARGETS[name], OffsetChangeForm([])
    assert name in dict(form.fields["target"].choices)  # type: ignore[attr-defined]
    assert target.meaning and (target.parameter is None) == (target.field == "")
    assert not target.field or target.field in form.fields


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.parameter])
def test_a_target_without_its_value_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(PlanRejected) as refusal:
        read_params(Given({"target": name}))
    assert refusal.value.field == TARGETS[name].parameter.name  # type: ignore[union-attr]
