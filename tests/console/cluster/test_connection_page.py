"""The page and the REST resource of a connection: what they take, test, and never show."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.access.models import AuditEvent
from console.cluster import services
from console.cluster.connection_change import ConnectionChange
from console.cluster.models import Cluster
from tests.console.cluster.conftest import TlsBroker
from tests.support.broker_process import BrokerProcess
from tests.support.people import person

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
SECRET = "secret-of-shop-71"  # noqa: S105 - of a test
PAGE, REST = "/c/staging/connection", "/api/v1/clusters/staging/connection"


@pytest.fixture(autouse=True)
def no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PROBES_A_MINUTE_MAX", 10_000)


@pytest.fixture
def browser() -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("alice"))
    return browser


@pytest.fixture
def staging(brokerd: BrokerProcess) -> Cluster:
    keys = ConnectionChange(access_key="shop", secret_key=SECRET)
    return services.add_cluster("staging", brokerd.namesrv, None, connection=keys)


def typed(broker: TlsBroker) -> dict[str, str]:
    """Return what a person types, with the line ends that a browser sends."""
    fields = {
        "name": "staging",
        "namesrv_addrs": broker.namesrv,
        "uses_tls": "on",
        "tls_checks_host_name": "on",
        "tls_ca": broker.ca,
        "tls_certificate": broker.client.certificate.read_text(),
        "tls_key": broker.client.key.read_text(),
        "access_key": "shop",
        "secret_key": SECRET,
    }
    return {name: value.replace("\n", "\r\n") for name, value in fields.items()}


def test_the_page_adds_tests_and_changes_a_cluster_with_tls_and_keys(
    tls_broker: TlsBroker, browser: Client
) -> None:
    answer = browser.post("/clusters", typed(tls_broker))
    assert (answer.status_code, answer["Location"]) == (302, "/c/staging/"), answer.content.decode()
    page = browser.get(PAGE).content.decode()
    assert "BEGIN CERTIFICATE" in page
    assert "BEGIN PRIVATE KEY" not in page
    assert SECRET not in page
    assert page.count("Stored. Leave empty to keep it.") == 2
    tested = browser.post(PAGE, {"action": "test"})
    assert "Every name server and broker answered, and no permission is missing." in tested.content.decode()
    kept = {**typed(tls_broker), "tls_key": "", "secret_key": "another-secret-73"}
    assert browser.post(PAGE, kept).status_code == 302
    connection = Cluster.objects.get().connection
    assert connection.keys is not None
    assert connection.keys.secret_key == "another-secret-73"  # noqa: S105
    assert connection.tls is not None
    assert connection.tls.key == tls_broker.client.key.read_text().strip()
    event = AuditEvent.objects.get(verb="change cluster")
    assert (event.before, event.after) == ({"secret_key": "stored"}, {"secret_key": "replaced"})


def test_a_refused_setting_is_named_and_no_secret_is_shown_again(
    tls_broker: TlsBroker, browser: Client
) -> None:
    answer = browser.post("/clusters", {**typed(tls_broker), "uses_tls": ""})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "It may require TLS: switch TLS on for this cluster." in page
    assert SECRET not in page
    assert "BEGIN PRIVATE KEY" not in page
    wrong = browser.post("/clusters", {**typed(tls_broker), "tls_ca": "nothing"}).content.decode()
    assert "This is not a PEM certificate" in wrong


def test_the_test_names_what_is_wrong(staging: Cluster, browser: Client) -> None:
    Cluster.objects.update(namesrv_addrs="127.0.0.1:1")
    page = browser.post(PAGE, {"action": "test"}).content.decode()
    assert "127.0.0.1:1: cannot connect: Connection refused" in page
    found: dict[str, Any] = browser.post(f"{REST}/test", content_type="application/json").json()
    assert [(each["addr"], each["fault"]) for each in found["findings"]] == [("127.0.0.1:1", "unreachable")]


def test_rest_takes_secrets_and_returns_none(staging: Cluster, browser: Client) -> None:
    expected = {"access_key": "shop", "has_secret_key": True, "has_security_token": False, "uses_tls": False}
    answer = browser.get(REST).json()
    assert {name: answer[name] for name in expected} == expected
    body = {"security_token": "token-72"}
    answer = browser.post(REST, body, content_type="application/json").json()
    assert answer["has_security_token"] is True
    assert "token-72" not in str(answer)
    answer = browser.post(REST, {"access_key": ""}, content_type="application/json").json()
    assert (answer["has_secret_key"], answer["has_security_token"]) == (False, False)
    refused = browser.post(REST, {"secret_key": "alone"}, content_type="application/json")
    assert (refused.status_code, refused.json()["field"]) == (422, "access_key")


def test_an_administrator_of_one_cluster_may_not_see_or_change_it(staging: Cluster) -> None:
    """The address decides what this machine connects to."""
    browser = Client()
    browser.force_login(person("zoe", "administrator", cluster_pattern="staging"))
    for path in (PAGE, REST):
        assert browser.get(path).status_code == 403
    assert browser.post(PAGE, {"action": "test"}).status_code == 403
    assert browser.post(f"{REST}/test", content_type="application/json").status_code == 403
    assert "/c/staging/connection" not in browser.get("/clusters").content.decode()
