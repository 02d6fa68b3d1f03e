from __future__ import annotations

from pathlib import Path

from brokerd.tables.changed_properties import ChangedProperties


def test_it_reads_back_what_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "config" / "broker.properties"
    changed = ChangedProperties(path)
    assert changed.properties == {}
    changed.change({"fileReservedTime": "48", "deleteWhen": "05"})
    changed.change({"fileReservedTime": "24"})
    changed.file.write_now()
    assert path.read_bytes() == b"deleteWhen=05\nfileReservedTime=24\n"
    assert ChangedProperties(path).properties == {
        "deleteWhen": "05",
        "fileReservedTime": "24",
    }
