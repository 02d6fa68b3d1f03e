"""Restore drills on a real brokerd: lost offsets return byte for byte, here, elsewhere, and by time."""

from __future__ import annotations

import datetime
import json
import shutil
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from console.brokers.mqadmin import close_admins
from console.cluster.models import Cluster
from console.group.offset_file.export import exported
from console.group.offset_file.layout import (
    OffsetFile,
    as_csv_lines,
    as_json_lines,
    file_params,
    read_offset_file,
)
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Plan
from tests.console.group.lost_offsets import LISTED, lose_offsets, round_ago
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("offsets on a broker; plans and jobs are written as in tests/console/operation"),
]


def offset_table(data: Path) -> bytes:
    """The offsets as the stopped broker has stored them."""
    kept = json.loads((data / "config" / "consumerOffset.json").read_text())
    return json.dumps(kept["offsetTable"], sort_keys=True).encode()


def applied(cluster: str, actor: User, params: dict[str, Any]) -> Plan:
    plan = services.create_plan("offset_change", cluster, "billing", params, actor)
    assert not plan.blocked
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    ended = selectors.job(job.id)
    assert (ended.state, ended.error) == ("SUCCEEDED", "")
    return plan


def test_lost_offsets_return_byte_for_byte_from_history(own: LiveCluster, alice: User) -> None:
    read_ms = round_ago(5_000)
    own.broker.stop()
    before = offset_table(own.broker.data)
    lose_offsets(own.broker.data)
    own.restart()
    assert own.committed("billing", "orders") == {}
    plan = applied("test", alice, {"target": "as_of", "time_ms": read_ms + 1})
    found = [(row["topic"], row["queue_id"], row["before"], row["after"]) for row in plan.diff]
    assert sorted(found) == sorted((topic, queue_id, None, offset) for topic, queue_id, offset in LISTED)
    own.broker.stop()
    assert offset_table(own.broker.data) == before


def test_lost_offsets_are_exported_as_last_known_and_return(own: LiveCluster, alice: User) -> None:
    round_ago(10_000)
    own.broker.stop()
    before = offset_table(own.broker.data)
    lose_offsets(own.broker.data)
    own.restart()
    round_ago(0)
    file = exported("test", "billing", int(time.time() * 1000))
    assert {queue.state for queue in file.queues} == {"last_known"}
    applied("test", alice, file_params(read_offset_file("".join(as_json_lines(file))), {}))
    own.broker.stop()
    assert offset_table(own.broker.data) == before


def restore_broker(*arguments: str) -> str:
    out = StringIO()
    call_command("offsets", "restore-broker", *arguments, stdout=out)
    return out.getvalue()


def test_all_groups_of_a_broker_are_restored_by_one_command(own: LiveCluster) -> None:
    own.create_group("audit")
    own.commit("audit", "orders", 1, 5)
    moment = datetime.datetime.fromtimestamp((round_ago(5_000) + 1) / 1000, tz=datetime.UTC).isoformat()
    own.broker.stop()
    before = offset_table(own.broker.data)
    lose_offsets(own.broker.data)
    own.restart()
    own.commit("audit", "orders", 1, 5)
    listed = restore_broker("broker-a", "--time", moment)
    assert listed.startswith("audit  no plan  1 queues  unchanged\n")
    assert "\nbilling  op-" in listed and "3 queues" in listed
    assert own.committed("billing", "orders") == {}, "a plan changes nothing"
    with pytest.raises(CommandError, match="give --confirm test"):
        restore_broker("broker-a", "--time", moment, "--apply")
    done = restore_broker("broker-a", "--time", moment, "--apply", "--confirm", "test", "--format", "json")
    rows = {row["group"]: (row["state"], row["plan"]) for row in json.loads(done)}
    planned = listed.partition("billing  ")[2].partition("  ")[0]
    assert rows == {"audit": ("unchanged", None), "billing": ("SUCCEEDED", planned)}
    own.broker.stop()
    assert offset_table(own.broker.data) == before


def test_a_group_that_cannot_be_restored_is_named_and_the_others_are(own: LiveCluster) -> None:
    own.create_topic("old", queues=1)
    own.create_group("audit")
    own.commit("audit", "old", 0, 0)
    moment = datetime.datetime.fromtimestamp((round_ago(5_000) + 1) / 1000, tz=datetime.UTC).isoformat()
    own.admin.delete_topic(own.addr, "old")
    own.admin.delete_topic_in_namesrv("old")
    own.commit("billing", "orders", 0, 9)
    with pytest.raises(CommandError, match="1 of 2 groups were not restored.") as refusal:
        restore_broker("broker-a", "--time", moment, "--apply", "--confirm", "test")
    assert refusal.value.returncode == 4
    assert own.committed("billing", "orders") == {0: 7, 1: 10}
    with pytest.raises(CommandError, match="broker-q is not available: no master of it is registered"):
        restore_broker("broker-q", "--time", moment)


@pytest.fixture
def moved(own: LiveCluster, tmp_path: Path) -> Iterator[tuple[OffsetFile, BrokerProcess]]:
    """The file of billing, and the store of its broker on another machine, under another name, without offsets."""
    read_ms = round_ago(0)
    file = exported("test", "billing", read_ms + 1_500)
    own.broker.stop()
    shutil.copytree(own.broker.data, tmp_path / "moved")
    lose_offsets(tmp_path / "moved")
    process = BrokerProcess(tmp_path / "moved", brokerName="broker-z", brokerClusterName="elsewhere").start()
    Cluster.objects.create(name="elsewhere", namesrv_addrs=process.namesrv)
    yield file, process
    close_admins()
    process.stop()


@pytest.mark.parametrize("lines", [as_json_lines, as_csv_lines])
def test_a_cluster_rebuilt_elsewhere_takes_the_file(
    own: LiveCluster, moved: tuple[OffsetFile, BrokerProcess], alice: User, lines: Any
) -> None:
    file, process = moved
    read = read_offset_file("".join(lines(file)).encode())
    with pytest.raises(errors.PlanRejected, match="elsewhere has no broker broker-a: name the broker"):
        services.create_plan("offset_change", "elsewhere", "billing", file_params(read, {}), alice)
    plan = applied("elsewhere", alice, file_params(read, {"broker-a": "broker-z"}))
    titles = {warning["title"]: warning["text"] for warning in plan.warnings}
    assert "From a file of billing in test, read at " in titles["Offsets of an exported file"]
    process.stop()
    assert offset_table(process.data) == offset_table(own.broker.data)


def test_a_file_that_does_not_fit_is_refused_queue_by_queue(own: LiveCluster, alice: User) -> None:
    rows = [("orders", "broker-a", 0, 11), ("orders", "broker-a", 7, 1), ("orders", "broker-q", 0, 1)]
    text = "topic,broker_name,queue_id,offset\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
    with pytest.raises(errors.PlanRejected) as refusal:
        services.create_plan(
            "offset_change", "test", "billing", file_params(read_offset_file(text), {}), alice
        )
    words = str(refusal.value)
    assert "test has no broker broker-q" in words
    assert "1 queue of the file does not exist here: orders · broker-a · 7." in words
    assert "1 queue ends before the offset of the file: orders · broker-a · 0 (11 > 10)" in words
    assert own.committed("billing", "orders") == {0: 7, 1: 10}


def test_an_import_is_undone_and_refuses_a_moved_group(own: LiveCluster, alice: User) -> None:
    file = read_offset_file("topic,broker_name,queue_id,offset\norders,broker-a,0,3\n")
    plan = applied("test", alice, file_params(file, {}))
    assert own.committed("billing", "orders") == {0: 3, 1: 10}
    late = services.create_plan("offset_change", "test", "billing", file_params(file, {}), alice)
    assert late.blocked.startswith("Nothing would change")
    undo = services.undo(plan.id, alice)
    own.commit("billing", "orders", 0, 5)
    with pytest.raises(errors.PlanDrifted, match="orders · broker-a · 0 moved from 3 to 5"):
        services.apply_plan(undo.id, alice, undo.confirm_text)
    undo = services.undo(plan.id, alice)
    runner.run(services.apply_plan(undo.id, alice, undo.confirm_text).id, "worker-1")
    wait_for(lambda: own.committed("billing", "orders") == {0: 7, 1: 10})
