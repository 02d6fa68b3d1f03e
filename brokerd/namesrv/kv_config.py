"""The name server's key-value settings (namespace → key → value), saved as kvConfig.json.

Source: protocol §5.1 (`KVConfigManager.java`); used for ordered topics (namespace ORDER_TOPIC_CONFIG).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from brokerd.tables.table_file import TableFile

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
ENTRIES_MAX = 100_000


class KvConfigManager:
    """The table and its file. Single-threaded: the event loop."""

    def __init__(self, path: Path) -> None:
        self.file = TableFile(path, self._document)
        self._table: dict[str, dict[str, str]] = {}

    def load(self, content: bytes) -> None:
        """Take over a saved table; raises msgspec.DecodeError (a ValueError) when it cannot be read."""
        document = msgspec.json.decode(content, type=dict[str, dict[str, dict[str, str]]])
        self._table = document.get("configTable", {})

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value. Raises OverflowError beyond ENTRIES_MAX."""
        entries = self._table.get(namespace, {})
        if key not in entries and sum(map(len, self._table.values())) >= ENTRIES_MAX:
            raise OverflowError(f"{ENTRIES_MAX} entries are stored already")
        self._table.setdefault(namespace, {})[key] = value
        self.file.changed()

    def delete(self, namespace: str, key: str) -> None:
        entries = self._table.get(namespace, {})
        if entries.pop(key, None) is None:
            return
        if not entries:
            del self._table[namespace]
        self.file.changed()

    def _document(self) -> Iterator[bytes]:
        table = {namespace: dict(entries) for namespace, entries in self._table.items()}

        def pieces() -> Iterator[bytes]:
            document = msgspec.json.encode({"configTable": table}, order="deterministic")
            yield msgspec.json.format(document, indent=2)

        return pieces()
