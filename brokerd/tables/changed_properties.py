"""Settings that operators changed while this ran (25, 318): a property file that is read again at every start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from brokerd.config import read_properties
from brokerd.tables import config_manager
from brokerd.tables.table_file import TableFile

CHANGED_PROPERTIES = Path("config") / "broker.properties"  # in the folder of a broker's store


class ChangedProperties:
    """The table and its file. Single-threaded: the event loop."""

    def __init__(self, path: Path) -> None:
        self.file = TableFile(path, self._document)
        self.properties = config_manager.load(path, lambda content: read_properties(content.decode())) or {}

    def change(self, properties: Mapping[str, str]) -> None:
        self.properties.update(properties)
        self.file.changed()

    def _document(self) -> Iterator[bytes]:
        lines = [f"{key}={value}\n" for key, value in sorted(self.properties.items())]
        return iter(["".join(lines).encode()])
