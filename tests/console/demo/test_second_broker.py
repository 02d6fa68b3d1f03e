"""The switch of the demo's second broker: who may use it, what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.process.programs import off_switch
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
URL = "/c/local/demo/broker"


@pytest.fixture
def demo(settings: Settings, tmp_path: Path) -> Path:
    settings.DEMO, settings.DATA_DIR = True, tmp_path
    Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1", is_embedded=True)
    Cluster.objects.create(name="prod", namesrv_addrs="127.0.0.1:2")
    return off_switch(tmp_path)


def test_it_switches_off_and_on_and_records_each_once(demo: Path) -> None:
    browser = signed_in()
    assert "Stop broker-b" in browser.get("/c/local/").content.decode()
    for _ in range(2):
        assert browser.post(URL, {"off": "1"}).status_code == 302
    assert demo.exists()
    assert "Start broker-b" in browser.get("/c/local/").content.decode()
    for _ in range(2):
        assert browser.post(URL, {"on": "1"}).status_code == 302
    assert not demo.exists()
    events = AuditEvent.objects.filter(subject="broker-b").order_by("pk")
    assert [event.verb for event in events] == ["stop demo broker", "start demo broker"]


def test_it_needs_the_right_to_configure(demo: Path) -> None:
    reader = signed_in("reader", verbs=("VIEW",))
    assert reader.post(URL, {"off": "1"}).status_code == 403
    assert "Stop broker-b" not in reader.get("/c/local/").content.decode()
    assert not demo.exists()


def test_other_clusters_and_other_installations_have_none(demo: Path, settings: Settings) -> None:
    browser = signed_in()
    assert browser.post("/c/prod/demo/broker", {"off": "1"}).status_code == 404
    settings.DEMO = False
    assert browser.post(URL, {"off": "1"}).status_code == 404
    assert not demo.exists()
