"""Report a full disk of the data folder: on one, SQLite only reports "disk I/O error"."""

import shutil

from django.conf import settings

from console.text import Text

ROOM_BYTES_MIN = 4 * 1024 * 1024  # one round of a large cluster, in SQLite's log and in the history's


def no_room() -> Text:
    """Return how full the disk is and what to do; "" while it has room, or its size is unavailable."""
    try:
        usage = shutil.disk_usage(settings.DATA_DIR)
    except OSError:
        return Text()
    if usage.free >= ROOM_BYTES_MIN:
        return Text()
    return Text(
        "The disk of %(folder)s is full (%(free)s KiB of %(total)s MiB free). Free some space; "
        "everything else continues automatically",
        folder=str(settings.DATA_DIR),
        free=usage.free // 1024,
        total=usage.total >> 20,
    )
