"""Mask rules as administrators write them, and the right to see what they hide."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.test import Client

from console.access.models import AuditEvent, MaskRule
from console.cluster.masks import masks_of, may_unmask, unmasked
from tests.support.people import person

pytestmark = pytest.mark.django_db


def test_rules_are_those_of_the_cluster() -> None:
    MaskRule.objects.create(cluster_pattern="prod-*", topic_pattern="pay-*", where="body", name="$.iban")
    MaskRule.objects.create(topic_pattern="*", where="property", name="pin")
    assert len(masks_of("prod-eu").rules) == 2
    (everywhere,) = masks_of("test").rules
    assert (everywhere.property, everywhere.steps) == ("pin", ())


@pytest.mark.parametrize(
    ("where", "name"),
    [("body", "iban"), ("body", "$."), ("property", "KEYS"), ("property", "TAGS"), ("property", "")],
)
def test_it_refuses_rules_that_could_not_hold(where: str, name: str) -> None:
    with pytest.raises(ValidationError):
        MaskRule(topic_pattern="orders", where=where, name=name).full_clean()


def test_rules_are_edited_in_the_admin_and_audited() -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    form = {"cluster_pattern": "*", "topic_pattern": "orders", "where": "body", "name": "$.card.number"}
    assert client.post("/admin/access/maskrule/add/", form | {"name": "card"}).status_code == 200
    assert not MaskRule.objects.exists()
    assert client.post("/admin/access/maskrule/add/", form).status_code == 302
    event = AuditEvent.objects.get(verb="add mask")
    assert event.after["name"] == "$.card.number" and "orders" in event.subject
    assert str(event.sentence) == "Added the mask * orders $.card.number"


def test_showing_needs_the_verb_and_leaves_a_trace() -> None:
    viewer = person("carol", "viewer")
    admin = User.objects.create_superuser("dora")
    assert not may_unmask(viewer, "local", "orders") and may_unmask(admin, "local", "orders")
    with pytest.raises(PermissionDenied):
        unmasked(viewer, "local", "orders", "A1", remote_addr="")
    assert not AuditEvent.objects.filter(verb="show masked fields").exists()
    assert unmasked(admin, "local", "orders", "A1", remote_addr="10.0.0.1").rules == ()
    event = AuditEvent.objects.get(verb="show masked fields")
    assert (event.actor, event.cluster, event.subject) == ("dora", "local", "orders A1")
