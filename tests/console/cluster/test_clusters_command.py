"""`manage.py clusters`."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from console.access.models import AuditEvent
from console.cluster import services
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("clusters", *words, stdout=out)
    return out.getvalue()


def test_it_adds_lists_and_removes(brokerd: BrokerProcess) -> None:
    services.register_embedded("127.0.0.1:9876")
    assert run("add", "staging", brokerd.namesrv, "--production") == "staging added\n"
    assert json.loads(run("list", "--format", "json")) == [
        {"name": "local", "namesrv_addrs": "127.0.0.1:9876", "is_embedded": True, "is_production": False},
        {"name": "staging", "namesrv_addrs": brokerd.namesrv, "is_embedded": False, "is_production": True},
    ]
    assert [line.split() for line in run("list").splitlines()] == [
        ["local", "127.0.0.1:9876", "embedded"],
        ["staging", brokerd.namesrv, "production"],
    ]
    assert run("remove", "staging") == "staging removed\n"


def test_it_says_what_is_wrong() -> None:
    services.register_embedded("127.0.0.1:9876")
    with pytest.raises(CommandError, match="127.0.0.1:1: cannot connect"):
        run("add", "staging", "127.0.0.1:1")
    with pytest.raises(CommandError, match="The cluster staging does not exist"):
        run("remove", "staging")
    with pytest.raises(CommandError, match="local is the broker that this installation runs"):
        run("remove", "local")


def test_it_changes_settings_with_an_audit(brokerd: BrokerProcess) -> None:
    services.register_embedded("127.0.0.1:9876")
    said = run("set", "local", "--second-person-messages", "500", "--production")
    assert said == "local changed: is_production, second_person_messages\n"
    run("set", "local", "--second-person-messages", "-1", "--namesrv-addrs", brokerd.namesrv)
    assert list(AuditEvent.objects.order_by("pk").values_list("verb", "before", "after")) == [
        (
            "change cluster",
            {"is_production": False, "second_person_messages": None},
            {"is_production": True, "second_person_messages": 500},
        ),
        (
            "change cluster",
            {"namesrv_addrs": "127.0.0.1:9876", "second_person_messages": 500},
            {"namesrv_addrs": brokerd.namesrv, "second_person_messages": None},
        ),
    ]
    for words, reason in {
        ("set", "local"): "Give at least one setting",
        ("set", "staging", "--production"): "The cluster staging does not exist",
        ("set", "local", "--namesrv-addrs", "127.0.0.1:1"): "cannot connect",
        ("set", "local", "--poll-interval-s", "0"): "poll_interval",
    }.items():
        with pytest.raises(CommandError, match=reason):
            run(*words)
