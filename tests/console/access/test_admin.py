"""Django's admin: what the product manages is shown there, people are kept there, nothing escapes the audit."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client

from console.access import services
from console.access.models import ApiToken, AuditEvent, Grant, Role
from console.cluster.models import Cluster
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PASSWORD = "a long enough one"
READ_ONLY = {"access.Role", "access.ApiToken", "access.AuditEvent", "cluster.Cluster"}
AUDITED = {"auth.User", "auth.Group", "access.Grant", "access.MaskRule"}


@pytest.fixture
def alice(client: Client) -> User:
    alice = User.objects.create_superuser("alice", password=PASSWORD)
    client.force_login(alice)
    return alice


def events() -> list[tuple[str, str, str]]:
    return list(AuditEvent.objects.order_by("pk").values_list("actor", "verb", "subject"))


def test_every_model_is_read_only_or_audited() -> None:
    """A new model has to be put into one of both; those of other packages (beat's tasks) are left out."""
    assert {model._meta.label for model in admin.site._registry} == READ_ONLY | AUDITED


def test_what_the_product_manages_is_shown_and_not_changed(client: Client, alice: User) -> None:
    token, key = services.create_token(owner=alice, name="ci", scopes=["VIEW"])
    event = services.record_audit(actor=alice, verb="apply", subject="billing")
    cluster = sample_rows.cluster()
    services.ensure_first_person()
    role = Role.objects.get(name="viewer")
    before = events()
    for thing in (token, event, cluster, role):
        base = f"/admin/{thing._meta.app_label}/{thing._meta.model_name}"
        fields = dict.fromkeys(("second_person_messages", "name", "verbs", "scopes", "revoked_at"), "9")
        assert client.get(f"{base}/").status_code == 200
        page = client.get(f"{base}/{thing.pk}/change/")
        assert page.status_code == 200
        assert key not in page.content.decode() and token.key_sha256 not in page.content.decode()
        assert client.post(f"{base}/{thing.pk}/change/", fields).status_code == 403
        assert client.get(f"{base}/add/").status_code == 403
        assert client.post(f"{base}/{thing.pk}/delete/", {"post": "yes"}).status_code == 403
        selected = {"action": "delete_selected", "_selected_action": [thing.pk], "post": "yes"}
        client.post(f"{base}/", selected)
        assert type(thing).objects.filter(pk=thing.pk).exists()
    assert Cluster.objects.get().second_person_messages is None
    assert ApiToken.objects.get().scopes == ["VIEW"]
    assert events() == before


def test_people_and_grants_are_changed_with_an_audit(client: Client, alice: User) -> None:
    services.ensure_first_person()
    made = {"username": "bob", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post("/admin/auth/user/add/", made).status_code == 302
    bob = User.objects.get(username="bob")
    changed = {"username": "bob", "email": "bob@example.org", "is_active": "on", "is_superuser": "on"}
    assert client.post(f"/admin/auth/user/{bob.pk}/change/", changed).status_code == 302
    found = AuditEvent.objects.get(verb="change person")
    assert (found.before["is_superuser"], found.after["is_superuser"]) == (False, True)
    assert found.before["password"] == found.after["password"]
    assert client.post("/admin/auth/group/add/", {"name": "ops"}).status_code == 302
    grant = {
        "team": Group.objects.get().pk,
        "role": Role.objects.get(name="operator").pk,
        "cluster_pattern": "prod-*",
        "name_pattern": "*",
    }
    assert client.post("/admin/access/grant/add/", grant).status_code == 302
    found = AuditEvent.objects.get(verb="add grant")
    assert found.after["cluster_pattern"] == "prod-*"
    assert found.before is None
    new = "another long enough one"
    changing = {"usable_password": "true", "password1": new, "password2": new}
    assert client.post(f"/admin/auth/user/{bob.pk}/password/", changing).status_code == 302
    selected = {"action": "delete_selected", "_selected_action": [Grant.objects.get().pk], "post": "yes"}
    client.post("/admin/access/grant/", selected)
    assert client.post(f"/admin/auth/user/{bob.pk}/delete/", {"post": "yes"}).status_code == 302
    assert events() == [
        ("alice", "add person", "bob"),
        ("alice", "change person", "bob"),
        ("alice", "add team", "ops"),
        ("alice", "add grant", "ops: operator on prod-*/*"),
        ("alice", "change person", "bob"),
        ("alice", "remove grant", "ops: operator on prod-*/*"),
        ("alice", "remove person", "bob"),
    ]
    stored = str(list(AuditEvent.objects.values_list("before", "after")))
    assert "md5$" not in stored and new not in stored


def test_ones_own_password_is_changed_where_the_present_one_is_asked(client: Client, alice: User) -> None:
    for address in (f"/admin/auth/user/{alice.pk}/password/", "/admin/password_change/"):
        answer = client.post(address, {"password1": "x" * 12, "password2": "x" * 12})
        assert (answer.status_code, answer["Location"]) == (302, "/password")


def test_it_signs_in_through_the_door_with_a_limit(client: Client) -> None:
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1] == ("/sign-in?next=/admin/", 302)
    assert client.post("/admin/login/", {"username": "alice", "password": "guess"}).status_code == 302


@pytest.mark.parametrize("is_staff", [False, True])
def test_it_refuses_people_who_may_not_do_everything(client: Client, is_staff: bool) -> None:
    client.force_login(User.objects.create_user("bob", is_staff=is_staff))
    assert client.get("/admin/", follow=True).status_code == 403


@pytest.mark.parametrize(
    "language, names",
    [
        ("en", ["People, roles and tokens", "API tokens", "Audit events", "Mask rules", ">Teams</a>"]),
        ("zh-hans", ["人员、角色和令牌", "API 令牌", "审计事件", "遮盖规则", ">团队</a>"]),
    ],
)
def test_it_names_models_in_the_readers_language(
    client: Client, alice: User, language: str, names: list[str]
) -> None:
    client.cookies["tidemark_language"] = language
    page = client.get("/admin/").content.decode()
    assert [name for name in names if name not in page] == []
    assert "Api token" not in page
