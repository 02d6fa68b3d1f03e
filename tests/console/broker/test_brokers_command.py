"""`manage.py brokers`."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from console.broker.plans import drain as drain_plan
from tests.console.broker.conftest import NAME, Pair

KEY = "shortPollingTimeMills"


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("brokers", *words, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_it_lists_brokers_and_differences(pair: Pair) -> None:
    pair.admin.update_broker_config(pair.addrs["broker-b"], {KEY: "700"})
    pair.collect()
    pair.b.kill()
    pair.survey()
    pair.collect()
    a, b = run("list").splitlines()
    assert a.startswith("broker-a") and "V5_3_3" in a and "disk" in a and "full: unknown" in a
    assert b.startswith("broker-b") and "unknown:" in b
    rows = json.loads(run("list", "--format", "json"))
    assert [(row["broker_name"], row["answered"], row["in_rate"] is None) for row in rows] == [
        ("broker-a", True, False),
        ("broker-b", False, True),
    ]
    assert "broker-b: unknown." in run("differences")
    assert json.loads(run("differences", "--format", "json")) == {}


def test_it_changes_a_key_and_undoes_it(pair: Pair) -> None:
    planned = run("config", KEY, "--set", "broker-a=250", "--set", "broker-b=300")
    plan = planned.split(":")[0]
    assert f"{KEY:<30}         1000 → 250" in planned and "manage.py brokers apply" in planned
    assert "SUCCEEDED" in run("apply", plan, "--here")
    assert pair.admin.broker_config(pair.addrs["broker-b"])[KEY] == "300"
    back = run("undo", plan).split(":")[0]
    run("apply", back, "--here")
    assert pair.admin.broker_config(pair.addrs["broker-b"])[KEY] == "1000"


def test_it_drains_and_gives_back(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_plan, "QUIET_MS", 500)
    plan = run("drain", "broker-b", "--cluster", NAME).split(":")[0]
    assert "SUCCEEDED" in run("apply", plan, "--here", "--confirm", "broker-b")
    back = run("give-back", "broker-b").split(":")[0]
    assert "SUCCEEDED" in run("apply", back, "--here")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("config", KEY, "--set", "broker-a"), "'broker-a' is not a value of a broker; write BROKER=VALUE."),
        (("config", KEY, "--set", "broker-z=1"), "There is no broker broker-z"),
        (("config", "brokerName", "--set", "broker-a=b"), "brokerName cannot be changed here"),
        (("drain", "broker-z"), "No name server that answers lists broker-z."),
    ],
)
def test_it_says_what_is_wrong(pair: Pair, words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        run(*words)
