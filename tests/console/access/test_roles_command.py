"""`manage.py roles`: the one door to roles, audited."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from console.access.models import AuditEvent, Role
from tests.support.people import person

pytestmark = pytest.mark.django_db


def roles(*arguments: str) -> str:
    out = io.StringIO()
    call_command("roles", *arguments, stdout=out)
    return out.getvalue()


def test_it_makes_changes_and_removes_a_role() -> None:
    roles("set", "auditor", "VIEW")
    roles("set", "auditor", "VIEW", "REPORT")
    assert json.loads(roles("list", "--format", "json")) == [{"name": "auditor", "verbs": ["VIEW", "REPORT"]}]
    assert roles("remove", "auditor") == "auditor removed\n"
    assert list(AuditEvent.objects.order_by("pk").values_list("verb", "before", "after")) == [
        ("set role", None, {"verbs": ["VIEW"]}),
        ("set role", {"verbs": ["VIEW"]}, {"verbs": ["VIEW", "REPORT"]}),
        ("remove role", {"verbs": ["VIEW", "REPORT"]}, None),
    ]


def test_it_refuses_to_remove_what_somebody_holds_or_what_is_not_there() -> None:
    person("bob", "viewer")
    with pytest.raises(CommandError, match="1 grants give the role viewer"):
        roles("remove", "viewer")
    with pytest.raises(CommandError, match="no role nothing"):
        roles("remove", "nothing")
    with pytest.raises(CommandError, match="invalid choice"):
        roles("set", "viewer", "EVERYTHING")
    assert Role.objects.get(name="viewer").verbs == ["VIEW"]
