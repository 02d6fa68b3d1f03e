"""`manage.py groups list`, from the rows of the last round."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def call(*arguments: str) -> str:
    out = StringIO()
    call_command("groups", "list", *arguments, stdout=out)
    return out.getvalue()


def test_it_lists_filters_and_sorts() -> None:
    sample_rows.sample()
    text = call()
    assert text.index("analytics") < text.index("billing")
    assert "FALLING_BEHIND" in text and "1 h 12 m" in text and text.count("unknown") == 3
    assert text.endswith("4 of 4 groups\n")
    found = json.loads(call("--dead-letters", "some", "--members", "online", "--format", "json"))
    assert [row["group"] for row in found] == ["notifier"]
    assert "1 of 1 groups" in call("--status", "FALLING_BEHIND")
    with pytest.raises(CommandError, match="invalid choice"):
        call("--members", "sideways")
