from __future__ import annotations

from pathlib import Path

from brokerd.tables.changed_properties import ChangedProperties


def test_it_reads_back_what_was_changed(tmp_path: Path) -> None:
    changed = ChangedProperties(tmp_path)
    assert changed.properties == {}
    changed.change({"fileReservedTime": "48", "deleteWhen": "05"})
    changed.change({"fileReservedTime": "24"})
    changed.file.write_now()
    assert (tmp_path / "config/broker.properties").read_bytes() == b"deleteWhen=05\nfileReservedTime=24\n"
    assert ChangedProperties(tmp_path).properties == {"deleteWhen": "05", "fileReservedTime": "24"}
