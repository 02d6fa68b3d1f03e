"""What this system lets one process have: connections and queues share its open files, queues and logs its maps."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")
MAPS_DEFAULT = 65_530  # Linux's; where the file is missing there is no such limit
FILES_WANTED = 200_000
FILES_BESIDE = 1_024  # commit log, index, libraries, what is open for a moment


@dataclass(frozen=True, slots=True)
class SystemLimits:
    connections_max: int
    queues_max: int
    reason: str  # where queues_max comes from, and how to raise it


def system_limits(connections: int, map_count: Path = MAX_MAP_COUNT) -> SystemLimits:
    """Return the limits with `connections` wanted; half of the open files are kept for queues."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        files = FILES_WANTED
    try:
        maps = int(map_count.read_text())
    except (OSError, ValueError):
        maps = MAPS_DEFAULT
    connections_max = max(1, min(connections, files // 2))
    by_files = max(1, files - connections_max - FILES_BESIDE)
    by_maps = max(1, maps * 3 // 4)  # long queues and the commit log have several files
    return SystemLimits(
        connections_max,
        min(by_files, by_maps),
        f"open files {files} (ulimit -n) for {connections_max} connections and the queues, vm.max_map_count {maps}",
    )


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us, within reason (the default is often 1024)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
