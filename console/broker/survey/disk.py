"""Estimate how long until a broker's disk is full, from its recent writes. Pure; states its basis.

The broker reports its disk in whole percents, so the speed is taken from the commit log's own byte counters and only
the room from the percentage: room = (limit - used) x size of the disk; time = room / bytes written per second. Files
that expire meanwhile are not counted: the figure is "if nothing is deleted", and says so.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping, Sequence

from console.text import Duration, Text
from console.text.figures import percent, size

WINDOW_MS = 60 * 60_000  # traffic of the last hour: long enough for bursts, short enough for tonight
HISTORY_MIN_MS = 10 * 60_000  # less is no trend
REFUSES_AT = 0.90  # diskSpaceWarningLevelRatio's default: from there on a broker refuses to write
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_CAPACITY = re.compile(r"Total\s*:\s*([\d.]+)\s*(\w+)\s*,\s*Free\s*:\s*([\d.]+)\s*(\w+)")


class Filling(enum.StrEnum):
    """The state of the disk. FULL: the broker refuses writes already."""

    UNKNOWN = "UNKNOWN"
    IDLE = "IDLE"
    FILLING = "FILLING"
    FULL = "FULL"


@dataclasses.dataclass(frozen=True, slots=True)
class LogSample:
    """The commit log at one moment; offsets in bytes."""

    at_ms: int
    max_offset: int


@dataclasses.dataclass(frozen=True, slots=True)
class FullIn:
    """The estimate; `full_in_ms` only while FILLING, `write_bytes_per_s` null without enough history."""

    filling: Filling
    words: Text
    full_in_ms: int | None = None
    write_bytes_per_s: float | None = None


def capacity_bytes(text: str) -> int | None:
    """Parse the size of the disk from "Total : 252.0 GiB, Free : 75.7 GiB."; None for anything else."""
    found = _CAPACITY.search(text)
    if found is None or found[2] not in UNITS:
        return None
    return round(float(found[1]) * UNITS[found[2]])


def usable_bytes(text: str, disk_ratio: float | None) -> int | None:
    """Return the part of the disk that the broker's ratio is a share of; None where the size is not reported.

    A file system may keep space for root or a quota: then what is used and what is free are less than its size, and the
    ratio is used / (used + free), as `UtilAll.getDiskPartitionSpaceUsedPercent` computes it.
    """
    total, found = capacity_bytes(text), _CAPACITY.search(text)
    if total is None or found is None or disk_ratio is None or disk_ratio >= 1 or found[4] not in UNITS:
        return total
    return min(total, round(float(found[3]) * UNITS[found[4]] / (1 - disk_ratio)))


def capacity_words(text: str) -> tuple[str, str] | None:
    """Return (size of the disk, free space) as the broker writes them; None for anything else."""
    found = _CAPACITY.search(text)
    return None if found is None else (f"{found[1]} {found[2]}", f"{found[3]} {found[4]}")


def refuses_at(config: Mapping[str, str] | None) -> float:
    """Return the share of the disk at which this broker refuses to write, by its configuration."""
    own = _own_share(config, "diskSpaceWarningLevelRatio")
    return REFUSES_AT if own is None else own


def _own_share(config: Mapping[str, str] | None, key: str) -> float | None:
    """Return a share of the broker's configuration, None where it has none that a broker accepts."""
    text = (config or {}).get(key, "")
    return int(text) / 100 if text.isascii() and text.isdigit() and 0 < int(text) <= 100 else None


@dataclasses.dataclass(frozen=True, slots=True)
class DiskLimit:
    """A share of the disk from which on a broker acts; `in_ms`: until it is reached, null when unknown.

    `is_default`: the broker's configuration does not have it or was not read, RocketMQ's default is shown.
    """

    key: str
    share: float
    words: Text
    is_reached: bool
    in_ms: int | None
    is_default: bool


# Key of the broker's configuration, its default, what happens from there on.
LIMITS = (
    (
        "diskMaxUsedSpaceRatio",
        0.75,
        Text("expired files are deleted immediately, not only at the hour of deleteWhen"),
    ),
    (
        "diskSpaceCleanForciblyRatio",
        0.85,
        Text("files are deleted even if they have not expired: groups that are behind lose messages"),
    ),
    ("diskSpaceWarningLevelRatio", REFUSES_AT, Text("the broker refuses to write")),
)


def limits(
    ratio: float | None, total_bytes: int | None, per_s: float | None, config: Mapping[str, str] | None
) -> list[DiskLimit]:
    """Return the limits of a broker, lowest first, and when each is reached if nothing is deleted."""
    found = []
    for key, default, words in LIMITS:
        own = _own_share(config, key)
        share = default if own is None else own
        is_reached = ratio is not None and ratio >= share
        in_ms = None
        if ratio is not None and not is_reached and total_bytes is not None and per_s:
            in_ms = round((share - ratio) * total_bytes * 1000 / per_s)
        found.append(DiskLimit(key, share, words, is_reached, in_ms, own is None))
    return sorted(found, key=lambda limit: limit.share)


def full_in(
    samples: Sequence[LogSample], disk_ratio: float | None, total_bytes: int | None, limit: float = REFUSES_AT
) -> FullIn:
    """Estimate from samples in the order of time, newest last; those older than `WINDOW_MS` are ignored."""
    if disk_ratio is None:
        return FullIn(Filling.UNKNOWN, Text("the broker does not report how full its disk is"))
    if disk_ratio >= limit:
        words = Text(
            "%(share)s used: from %(limit)s on the broker refuses to write",
            share=percent(disk_ratio),
            limit=percent(limit),
        )
        return FullIn(Filling.FULL, words)
    recent = _since_restart([one for one in samples if one.at_ms >= samples[-1].at_ms - WINDOW_MS])
    span_ms = recent[-1].at_ms - recent[0].at_ms if recent else 0
    if span_ms < HISTORY_MIN_MS:
        words = Text(
            "how fast the disk fills is known after %(need)s of readings; %(span)s so far",
            span=Duration(span_ms),
            need=Duration(HISTORY_MIN_MS),
        )
        return FullIn(Filling.UNKNOWN, words)
    written = recent[-1].max_offset - recent[0].max_offset
    per_s = written * 1000 / span_ms
    if written == 0:
        words = Text("nothing was written in the last %(span)s", span=Duration(span_ms))
        return FullIn(Filling.IDLE, words, None, 0.0)
    if total_bytes is None:
        words = Text("the broker does not report how large its disk is")
        return FullIn(Filling.UNKNOWN, words, None, per_s)
    room = (limit - disk_ratio) * total_bytes
    words = Text(
        "%(size)s an hour were written in the last %(span)s; %(room)s are left until %(limit)s, where "
        "the broker refuses to write. Files that expire earlier are not taken into account.",
        size=size(per_s * 3600),
        span=Duration(span_ms),
        room=size(room),
        limit=percent(limit),
    )
    return FullIn(Filling.FILLING, words, round(room * 1000 / per_s), per_s)


def _since_restart(samples: list[LogSample]) -> list[LogSample]:
    """Return the samples since the log last began anew: a replaced store does not predict this one."""
    start = 0
    for place in range(1, len(samples)):
        if samples[place].max_offset < samples[place - 1].max_offset:
            start = place
    return samples[start:]
