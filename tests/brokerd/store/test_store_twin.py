"""The store against a plain twin in memory: any sequence of calls gives the same answers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokerd.remoting.message.java_hash import tags_code
from tests.brokerd.store.stores import BORN_HOST, NOW_MS, STORE_HOST, body_of, kill, open_store, put, settle

TOPICS = st.sampled_from(["A", "B", "%RETRY%" + "g" * 130])
QUEUE_IDS = st.integers(0, 1)
TAGS = st.sampled_from(["", "TagA", "中文"])
KEYS = st.sampled_from(["", "k1", "k2", "k1 k2", "Aa", "BB"])
BODIES = st.binary(max_size=40) | st.integers(0, 3500).map(bytes)
Stored = tuple[bytes, str, str, int]  # body, tags, keys, store time


class StoreAndTwin(RuleBasedStateMachine):
    """The twin: (topic, queue) → list of what was put, in order."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="twin-"))
        self.store = open_store(self.root, max_index_num=16)
        self.twin: dict[tuple[str, int], list[Stored]] = {}
        self.now_ms = NOW_MS

    def properties(self, tags: str, keys: str) -> bytes:
        pairs = (("TAGS", tags), ("KEYS", keys))
        return "".join(f"{name}\x01{value}\x02" for name, value in pairs if value).encode()

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, body=BODIES, tags=TAGS, keys=KEYS, pause_ms=st.integers(0, 3))
    def put(self, topic: str, queue_id: int, body: bytes, tags: str, keys: str, pause_ms: int) -> None:
        self.now_ms += pause_ms
        queue = self.twin.setdefault((topic, queue_id), [])
        result = put(self.store, body, topic, queue_id, self.properties(tags, keys), self.now_ms)
        assert result.queue_offset == len(queue)
        queue.append((body, tags, keys, self.now_ms))

    @rule(
        topic=TOPICS, batch=st.lists(st.tuples(st.binary(max_size=300), TAGS, KEYS), min_size=1, max_size=8)
    )
    def put_batch(self, topic: str, batch: list[tuple[bytes, str, str]]) -> None:
        queue = self.twin.setdefault((topic, 0), [])
        result = self.store.put_messages(
            topic,
            0,
            [(body, self.properties(tags, keys), 0) for body, tags, keys in batch],
            born_timestamp_ms=NOW_MS,
            born_host=BORN_HOST,
            store_host=STORE_HOST,
            now_ms=self.now_ms,
        )
        assert (result.queue_offset, len(result.commit_log_offsets)) == (len(queue), len(batch))
        queue += [(body, tags, keys, self.now_ms) for body, tags, keys in batch]

    @rule()
    def flush(self) -> None:
        assert self.store.flush() == self.store.commit_log_max_offset

    @rule()
    def restart_cleanly(self) -> None:
        self.store.close(self.now_ms)
        self.store = open_store(self.root, max_index_num=16)

    @rule()
    def crash(self) -> None:
        kill(self.store)
        self.store = open_store(self.root, max_index_num=16)

    @rule(pause_ms=st.sampled_from([100, 600, 70_000]))
    def flush_if_due(self, pause_ms: int) -> None:
        self.store.flush_log_if_due(self.now_ms + pause_ms)
        self.store.flush_queues_if_due(self.now_ms + pause_ms)

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, tags=TAGS, number=st.integers(1, 40), start=st.integers(0, 50))
    def pull(self, topic: str, queue_id: int, tags: str, number: int, start: int) -> None:
        self.store.dispatch_pending()
        queue = self.twin.get((topic, queue_id), [])
        wanted = frozenset((tags_code(tags.encode()),)) if tags else None
        result = self.store.get_message(topic, queue_id, start, number, tags_codes=wanted)
        if start >= len(queue):
            assert not result.views
            return
        looked_at = queue[start : result.next_begin_offset]
        expected = [body for body, its_tags, _, _ in looked_at if not tags or its_tags == tags]
        assert [self.body(topic, view) for view in result.views] == expected
        assert start < result.next_begin_offset <= len(queue)

    def body(self, topic: str, view: memoryview) -> bytes:
        return body_of(view)

    @rule(topic=TOPICS, key=st.sampled_from(["k1", "k2", "Aa", "none"]))
    def query(self, topic: str, key: str) -> None:
        settle(self.store)
        found = self.store.query_by_key(topic, key, 64, 0, 2**62).commit_log_offsets
        bodies = []
        for offset in found:
            view = self.store.look_message(offset)
            assert view is not None
            bodies.append(self.body(topic, view))
        wanted = {
            body
            for (its_topic, _), queue in self.twin.items()
            for body, _, keys, _ in queue
            if its_topic == topic and key in keys.split()
        }
        assert wanted <= set(bodies) or len(found) == 64

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, back_ms=st.integers(-2, 12))
    def seek(self, topic: str, queue_id: int, back_ms: int) -> None:
        self.store.dispatch_pending()
        queue = self.twin.get((topic, queue_id), [])
        time_ms = self.now_ms - back_ms
        expected = sum(stored_ms < time_ms for _, _, _, stored_ms in queue)
        assert self.store.offset_by_time(topic, queue_id, time_ms) == expected

    @invariant()
    def it_agrees_on_every_queue(self) -> None:
        self.store.dispatch_pending()
        assert self.store.dispatch_behind_bytes == 0
        for (topic, queue_id), queue in self.twin.items():
            assert self.store.min_offset(topic, queue_id) == 0
            assert self.store.max_offset(topic, queue_id) == len(queue)

    def teardown(self) -> None:
        self.store.close(self.now_ms)
        shutil.rmtree(self.root)


TestStoreAndTwin = StoreAndTwin.TestCase
TestStoreAndTwin.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
