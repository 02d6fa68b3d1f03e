"""`manage.py prepare`, `doctor` and `up` as commands."""

import io
import json

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections
from pytest_django import Settings

from console.access import services as access_services
from console.cluster.models import Cluster
from tests.support.broker_process import BrokerProcess

both = pytest.mark.django_db(databases=["default", "metrics"])


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


@both
def test_it_prepares_once_and_again(settings: Settings) -> None:
    settings.EMBEDDED_NAMESRV = "127.0.0.1:9876"
    first, second = (json.loads(run("prepare"))["sign_in_key"] for _ in range(2))
    assert first != second
    assert access_services.redeem_sign_in_link(second) == User.objects.get()
    assert [(one.name, one.namesrv_addrs) for one in Cluster.objects.all()] == [("local", "127.0.0.1:9876")]


@both
def test_it_prepares_without_an_embedded_cluster(settings: Settings) -> None:
    settings.EMBEDDED_NAMESRV = ""
    run("prepare", "--migrate")
    assert not Cluster.objects.exists()


@both
def test_it_finds_nothing_that_must_be_fixed(redis_url: str, brokerd: BrokerProcess) -> None:
    Cluster.objects.create(name="local", namesrv_addrs=brokerd.namesrv)
    findings = json.loads(run("doctor", "--format", "json"))
    assert {"level": "ok", "text": f"cluster local: broker-a at {brokerd.namesrv}", "hint": ""} in findings
    assert [finding for finding in findings if finding["level"] == "error"] == []
    (worker,) = [finding for finding in findings if finding["text"].startswith("worker and beat")]
    assert (worker["level"], "manage.py up" in worker["hint"]) == ("warning", True)


@both
def test_it_says_what_to_fix_and_fails(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/r.sock"
    Cluster.objects.create(name="far", namesrv_addrs="127.0.0.1:1")
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", stdout=out)
    assert ended.value.code == 1
    lines = out.getvalue().splitlines()
    assert [line for line in lines if line.startswith("error    Redis does not answer")]
    assert [line for line in lines if line.startswith("warning  cluster far: 127.0.0.1:1: cannot connect")]
    assert "REDIS_URL" in out.getvalue()


@both
def test_it_says_that_migrations_are_missing() -> None:
    with connections["default"].cursor() as cursor:
        newest = (
            "(SELECT name FROM (SELECT max(name) AS name FROM django_migrations WHERE app = 'access') AS n)"
        )
        cursor.execute(f"DELETE FROM django_migrations WHERE app = 'access' AND name = {newest}")  # noqa: S608
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--format", "json", stdout=out)
    (finding,) = [one for one in json.loads(out.getvalue()) if "to apply" in one["text"]]
    assert (finding["text"], finding["hint"]) == (
        "Database default has 1 migrations to apply.",
        "manage.py migrate --database default",
    )
