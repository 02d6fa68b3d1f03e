"""Types of the compiled functions; hot.c says what each is the twin of."""

from collections.abc import Mapping
from typing import Any

Key = tuple[int, int, int]

def sends(
    data: bytes,
    position: int,
    entries: Mapping[str, Any],
    topics: Mapping[str, Any],
    queues: Mapping[tuple[str, int], Any],
    added: bytes,
    store_host: bytes,
    pieces: tuple[bytes, ...],
    born_host: bytes,
    store_ms: int,
    offset: int,
    room: int,
    size_max: int,
) -> tuple[int, Any, bytes, list[Any], list[bytes]] | None: ...
def batch(
    body: bytes,
    queue: Any,
    topic: bytes,
    added: bytes,
    queue_id: int,
    queue_offset: int,
    offset: int,
    room: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    store_host: bytes,
    reconsume_times: int,
    id_prefix: bytes,
) -> tuple[bytes, bytes, list[Any], str] | None: ...
def hash_keys(records: list[Any], end_offset: int) -> list[Key] | None: ...
def index_keys(
    mapped: Any, keys: list[Key], first: int, begin_ms: int, slot_num: int, entries_start: int
) -> int: ...
