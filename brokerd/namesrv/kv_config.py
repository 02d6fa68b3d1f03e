"""Owns the name server's key-value settings (namespace → key → value), saved as kvConfig.json.

Source: protocol §5.1 (`KVConfigManager.java`); used for ordered topics (namespace ORDER_TOPIC_CONFIG).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
ENTRIES_MAX = 100_000


class KvConfigManager:
    """The table and its file. A change that cannot be saved raises OSError and is not made."""

    def __init__(self, path: Path, save: Callable[[Path, bytes], None]) -> None:
        self._path = path
        self._save = save
        self._table: dict[str, dict[str, str]] = {}

    def load(self, content: bytes) -> None:
        """Take over a saved table; raises msgspec.DecodeError (a ValueError) when it is none."""
        document = msgspec.json.decode(content, type=dict[str, dict[str, dict[str, str]]])
        self._table = document.get("configTable", {})

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Raises OverflowError beyond ENTRIES_MAX."""
        entries = self._table.get(namespace, {})
        if key not in entries and sum(map(len, self._table.values())) >= ENTRIES_MAX:
            raise OverflowError(f"{ENTRIES_MAX} entries are stored already")
        self._replace({**self._table, namespace: {**entries, key: value}})

    def delete(self, namespace: str, key: str) -> None:
        entries = dict(self._table.get(namespace, {}))
        if entries.pop(key, None) is None:
            return
        table = {**self._table, namespace: entries}
        if not entries:
            del table[namespace]
        self._replace(table)

    def _replace(self, table: dict[str, dict[str, str]]) -> None:
        document = msgspec.json.encode({"configTable": table}, order="deterministic")
        self._save(self._path, msgspec.json.format(document, indent=2))
        self._table = table
