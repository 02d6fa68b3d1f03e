"""Small files that are replaced as a whole: after a crash they hold the old or the new content, never a part."""

from __future__ import annotations

import os
from pathlib import Path

from brokerd.store.files.mapped_file import fsync_directory


def replace_durably(path: Path, content: bytes) -> None:
    """Write, sync, rename, sync the folder. Raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    fsync_directory(path.parent)
