from __future__ import annotations

import json
import os
from pathlib import Path

from brokerd.tables.consumer_offset import ConsumerOffsetManager


def test_it_keeps_what_was_committed_last(tmp_path: Path) -> None:
    offsets = ConsumerOffsetManager(tmp_path / "consumerOffset.json", 0)
    offsets.commit("g", "T", 0, 5, 1)
    offsets.commit("g", "T", 0, 3, 2)
    assert (offsets.query("g", "T", 0), offsets.query("g", "T", 1), offsets.query("h", "T", 0)) == (
        3,
        None,
        None,
    )


def test_it_serves_a_reset_until_somebody_took_note(tmp_path: Path) -> None:
    offsets = ConsumerOffsetManager(tmp_path / "consumerOffset.json", 0)
    offsets.commit("g", "T", 0, 5, 1)
    offsets.reset("g", "T", {0: 1, 1: 2}, 2)
    assert (offsets.query("g", "T", 0), offsets.pending_reset("g", "T", 1)) == (1, 2)
    assert (offsets.take_reset("g", "T", 0), offsets.take_reset("g", "T", 0)) == (1, None)
    assert offsets.pending_reset("g", "T", 1) == 2


def test_it_saves_only_when_something_changed(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsetManager(path, 7)
    offsets.save()
    assert not offsets.file.is_changed
    offsets.commit("g", "%RETRY%g", 0, 5, 1)
    assert not offsets.file.is_changed, "not at every commit"
    offsets.save()
    assert offsets.file.is_changed
    offsets.file.write_now()
    offsets.save()
    assert not offsets.file.is_changed
    assert json.loads(path.read_bytes()) == {
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 7},
        "offsetTable": {"%RETRY%g@g": {"0": 5}},
    }
    assert ConsumerOffsetManager(path, 0).offsets == {("%RETRY%g", "g"): {0: 5}}


def test_it_reads_what_a_java_broker_saved(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{\n\t"offsetTable":{\n\t\t"T@G":{0:250,1:251\n\t\t},\n\t\t"T@a@b":{3:1\n\t\t}\n\t}\n}')
    assert ConsumerOffsetManager(path, 0).offsets == {("T", "G"): {0: 250, 1: 251}, ("T", "a@b"): {3: 1}}


def test_it_counts_versions_every_500_commits(tmp_path: Path) -> None:
    offsets = ConsumerOffsetManager(tmp_path / "consumerOffset.json", 0)
    for i in range(1_001):
        offsets.commit("g", "T", 0, i, i)
    assert offsets.data_version.counter == 2


def test_it_forgets_groups_and_topics(tmp_path: Path) -> None:
    offsets = ConsumerOffsetManager(tmp_path / "consumerOffset.json", 0)
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T")):
        offsets.commit(group, topic, 0, 1, 0)
    offsets.clone("h", "copy", "T", 0)
    assert (offsets.topics_of_group("g"), offsets.groups_of_topic("T")) == (["T", "U"], ["copy", "g", "h"])
    offsets.remove_topic("T")
    offsets.remove_group("g")
    assert offsets.offsets == {}


def test_pending_resets_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsetManager(path, 0)
    offsets.commit("g", "T", 0, 9, 1)
    offsets.reset("g", "T", {0: 1, 1: 2}, 2)
    offsets.take_reset("g", "T", 1)
    offsets.save()
    offsets.file.write_now()
    assert json.loads(path.read_bytes())["resetOffsetTable"] == {"T@g": {"0": 1}}
    again = ConsumerOffsetManager(path, 0)
    assert (again.pending_reset("g", "T", 0), again.pending_reset("g", "T", 1)) == (1, None)
    assert again.offsets == {("T", "g"): {0: 1, 1: 2}}
    assert again.take_reset("g", "T", 0) == 1
    again.save()
    again.file.write_now()
    assert "resetOffsetTable" not in json.loads(path.read_bytes()), "done is done, and Java's shape again"


def test_offsets_behind_a_queue_that_lost_its_end_skip_nothing(tmp_path: Path) -> None:
    offsets = ConsumerOffsetManager(tmp_path / "consumerOffset.json", 0)
    offsets.commit("g", "T", 0, 100, 1)
    offsets.commit("g", "T", 1, 5, 1)
    offsets.fit(lambda topic, queue_id: 90, 2)
    assert offsets.offsets == {("T", "g"): {0: 90, 1: 5}}


def test_it_keeps_groups_of_light_queues_as_apache_does(tmp_path: Path) -> None:
    """With light queues Apache reads and writes the other file only."""
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsetManager(path, 7, has_light_queues=True)
    offsets.commit("%LMQ%g", "%LMQ%a", 0, 5, 1)
    offsets.commit("g", "%LMQ%a", 0, 4, 1)
    offsets.commit("g", "T", 1, 3, 1)
    offsets.save()
    for file in offsets.files:
        assert file.is_changed
        file.write_now()
    table = {"%LMQ%a@g": {"0": 4}, "T@g": {"1": 3}}
    version = {"counter": 0, "stateVersion": 0, "timestamp": 7}
    assert json.loads((tmp_path / "lmqConsumerOffset.json").read_bytes()) == {
        "dataVersion": version, "lmqOffsetTable": {"%LMQ%a@%LMQ%g": 5}, "offsetTable": table,
    }  # fmt: skip
    assert json.loads(path.read_bytes())["offsetTable"] == {**table, "%LMQ%a@%LMQ%g": {"0": 5}}
    for has_light_queues in (True, False):
        again = ConsumerOffsetManager(path, 0, has_light_queues=has_light_queues)
        assert again.offsets == offsets.offsets


def test_the_younger_of_both_files_counts(tmp_path: Path) -> None:
    path, light_path = tmp_path / "consumerOffset.json", tmp_path / "lmqConsumerOffset.json"
    path.write_text('{"offsetTable":{"T@g":{0:1}}}')
    # As 5.3.3 writes it.
    light_path.write_text('{\n\t"lmqOffsetTable":{"%LMQ%a@%LMQ%g":9},\n\t"offsetTable":{"T@g":{0:2}}\n}')
    for young, old, offset in ((light_path, path, 2), (path, light_path, 1)):
        os.utime(old, ns=(1, 1))
        os.utime(young, ns=(2, 2))
        assert ConsumerOffsetManager(path, 0).committed("g", "T", 0) == offset
    light_path.unlink()
    assert ConsumerOffsetManager(path, 0).committed("g", "T", 0) == 1
    path.rename(light_path)
    assert ConsumerOffsetManager(path, 0).committed("g", "T", 0) == 1
