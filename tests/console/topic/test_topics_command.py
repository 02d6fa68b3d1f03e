"""`manage.py topics` and `manage.py groups` against a real brokerd."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from console.lag.models import GroupRow, TopicRow
from tests.console.operation.live_cluster import LiveCluster

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def call(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def plan(*arguments: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(call(*arguments, "--format", "json"))
    return made


def test_it_lists_topics_and_groups(live: LiveCluster) -> None:
    for name, kind in (("orders", "NORMAL"), ("clicks", "NORMAL"), ("%DLQ%billing", "DLQ")):
        TopicRow.objects.create(cluster="test", topic=name, kind=kind, perm=6, brokers=["broker-a"])
    GroupRow.objects.create(cluster="test", group="billing", status="OK", lag=9, lag_lower_bound=True)
    text = call("topics", "list")
    assert "orders" in text and "%DLQ%" not in text and "unknown" in text
    assert "2 of 2 topics; 1 of other kinds are hidden" in text
    rows = json.loads(call("topics", "list", "--kind", "DLQ", "--format", "json"))
    assert [row["topic"] for row in rows] == ["%DLQ%billing"]
    assert "≥ 9" in call("groups", "list")
    assert json.loads(call("groups", "list", "--format", "json"))[0]["clients"] is None


def test_it_plans_applies_here_and_undoes(live: LiveCluster) -> None:
    text = call("topics", "create", "orders", "--write-queues", "4", "--message-type", "FIFO")
    assert "Create the topic orders on broker-a: 4 write and 4 read queues" in text
    assert "create topic orders" in text and "manage.py topics apply op-" in text
    made = plan("topics", "create", "orders", "--write-queues", "4")
    assert "SUCCEEDED" in call("topics", "apply", made["id"], "--here")
    changed = plan("topics", "change", "orders", "--perm", "4", "--order", "true", "--broker", "broker-a")
    assert changed["params"] == {"perm": 4, "order": True, "brokers": ["broker-a"]}
    call("topics", "apply", changed["id"], "--here")
    assert live.admin.topic_config(live.addr, "orders").perm == 4
    undo = plan("topics", "undo", changed["id"])
    call("topics", "apply", undo["id"], "--here")
    assert live.admin.topic_config(live.addr, "orders").perm == 6


def test_it_ends_with_a_code_that_says_why(live: LiveCluster) -> None:
    live.create_topic("orders")
    blocked = plan("topics", "delete", "orders")
    with pytest.raises(CommandError, match="Put it in quarantine first") as caught:
        call("topics", "apply", blocked["id"], "--here")
    assert caught.value.returncode == 3
    forced = plan("topics", "delete", "orders", "--force")
    with pytest.raises(CommandError, match="type the name") as caught:
        call("topics", "apply", forced["id"], "--here")
    assert caught.value.returncode == 1
    call("topics", "apply", forced["id"], "--confirm", "orders", "--here")
    with pytest.raises(CommandError, match="is a plan of another command"):
        call("groups", "apply", forced["id"])


def test_it_changes_groups(live: LiveCluster) -> None:
    made = plan("groups", "create", "billing", "--retry-max-times", "3", "--consume-enable", "false")
    call("groups", "apply", made["id"], "--here")
    found = live.admin.all_subscription_groups(live.addr).subscription_group_table["billing"]
    assert (found.retry_max_times, found.consume_enable) == (3, False)
    gone = plan("groups", "delete", "billing", "--force", "--keep-offsets")
    assert gone["params"] == {"keep_offsets": True}
    call("groups", "apply", gone["id"], "--confirm", "billing", "--here")
    assert "billing" not in live.admin.all_subscription_groups(live.addr).subscription_group_table
