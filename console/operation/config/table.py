"""A topic's or group's configuration on every broker now, side by side, with the differences."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from console.brokers.mqadmin import with_admin
from console.brokers.queues import PAGE_DEADLINE_MS, NameServersSilent, page_masters
from console.cluster.models import Cluster
from console.operation.config.change import ask_configs
from console.operation.config.row import Config
from console.text import Text, text_of

# The same on every broker, and in the page's heading.
NAME_KEYS = frozenset({"topicName", "groupName"})


@dataclasses.dataclass(frozen=True, slots=True)
class KeyRow:
    """One key over all brokers.

    A cell is (value, differs from most); value None means that the broker has no such key. ``default`` is
    RocketMQ's, None where it is not known here.
    """

    key: str
    cells: tuple[tuple[Any, bool], ...]
    differs: bool
    meaning: Text = Text()
    default: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class KeyArea:
    """Keys that belong together; ``title`` empty: all of them."""

    title: Text
    rows: tuple[KeyRow, ...]

    @property
    def differing(self) -> int:
        return sum(row.differs for row in self.rows)


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigTable:
    """``silent``: broker name → why it did not answer; ``without``: brokers that do not have the object."""

    brokers: tuple[str, ...]
    rows: tuple[KeyRow, ...]
    silent: Mapping[str, str]
    without: tuple[str, ...]
    read_at_ms: int
    # Why no broker could be read at all.
    problem: str = ""
    # The same rows by what they are about.
    areas: tuple[KeyArea, ...] = ()

    @property
    def differing(self) -> int:
        return sum(row.differs for row in self.rows)


def read_table(
    cluster: Cluster, what: str, name: str, meanings: Mapping[str, Text] = MappingProxyType({})
) -> ConfigTable:
    """Read every broker at once; ``meanings``: key → what it says.

    Raises nothing: a page shows what was read and why the rest is missing.
    """
    admin, now_ms = with_admin(cluster.connection), time.time_ns() // 1_000_000
    try:
        addrs = page_masters(admin)
    except NameServersSilent as error:
        return ConfigTable((), (), {}, (), now_ms, text_of(error).local())
    answers = ask_configs(admin, addrs, what, name, PAGE_DEADLINE_MS)
    found = {broker: answer for broker, answer in answers.items() if isinstance(answer, dict)}
    rows = tuple(
        dataclasses.replace(row, meaning=meanings.get(row.key, row.meaning))
        for row in compare(list(found.values()))
    )
    return ConfigTable(
        brokers=tuple(found),
        rows=rows,
        areas=(KeyArea(Text(), rows),),
        silent={broker: str(answer) for broker, answer in answers.items() if isinstance(answer, Exception)},
        without=tuple(broker for broker, answer in answers.items() if answer is None),
        read_at_ms=now_ms,
    )


def compare(configs: Sequence[Config]) -> tuple[KeyRow, ...]:
    """Return a row per key, differing keys first; attributes are keys of their own."""
    flat = [_flat(config) for config in configs]
    keys = list(dict.fromkeys(key for config in flat for key in config))
    rows = []
    for key in keys:
        values = [config.get(key) for config in flat]
        usual, _ = Counter(map(repr, values)).most_common(1)[0]
        cells = tuple((value, repr(value) != usual) for value in values)
        rows.append(KeyRow(key, cells, any(differs for _, differs in cells)))
    return tuple(sorted(rows, key=lambda row: not row.differs))


def _flat(config: Config) -> Config:
    plain = {key: value for key, value in config.items() if key != "attributes" and key not in NAME_KEYS}
    return {**plain, **config.get("attributes", {})}
