"""What a task makes of a work item: the rows of its hours, or of a longer period added up from them.

A module of its own, so that executors import it: what is defined in a job's `__main__` would travel with every task.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark.grid_rows import GridRows, retry_counts
from spark.hour_rows import Asked, tables
from spark.notes import Note
from spark.periods import folded, merge
from spark.rounds import Matrix
from spark.sample_codes import HourRows
from spark.work import HistoryReader, HourBlock, HourGrid, WorkItem

TOPICS_KEPT = 2_000  # hours of group-topics that become rows at once: 40 MB of them
CODES_KEPT = 1 << 24  # samples whose codes wait for the end of the period: 130 MB of them


def hour_rows(item: WorkItem, notes: list[Note]) -> Iterator[pa.Table]:
    """The rows of an item's hours, in each table those of a grain in the order of their keys; what cannot be read comes
    into `notes`.
    """
    reader = HistoryReader(item)
    hours = HourTables(reader)
    for parts in reader.parts():
        for part in parts:
            yield from hours.of(part)
    yield from hours.rest()
    reader.close()
    notes += reader.notes


def period_rows(item: WorkItem, notes: list[Note]) -> Iterator[pa.Table]:
    """As `hour_rows`, but the item's hours are added up to one period."""
    reader = HistoryReader(item)
    hours = HourTables(reader, for_period=True)
    for parts in reader.parts():
        found: list[HourRows] = []
        is_mixed = False
        coded = 0
        for part in parts:
            added = hours.rows_of(part)
            coded += sum(one.codes.lag.size for one in added if one.codes is not None)
            found += added
            if coded > CODES_KEPT:
                found, coded = [folded(found)], 0
            is_mixed |= isinstance(part, HourBlock)
        # A group-topic with a plain hour must not wait with its other hours: they are one row of the period.
        found += map(HourRows, hours.rest(at_least=0 if is_mixed else TOPICS_KEPT))
        if found:
            yield merge(found, item.from_ms, item.to_ms, reader.spec)
    found = [*map(HourRows, hours.rest())]
    if found:
        yield merge(found, item.from_ms, item.to_ms, reader.spec)
    reader.close()
    notes += reader.notes


class HourTables:
    """The rows of the parts of hours: `of` each, and at last `rest`, group-topics of all of them."""

    def __init__(self, reader: HistoryReader, *, for_period: bool = False) -> None:
        """`for_period`: percentiles of queues come from the hours' histograms or codes, when they are added up."""
        self._reader = reader
        self._for_period = for_period
        self._grids = GridRows(for_period=for_period)

    def of(self, part: HourBlock | HourGrid) -> list[pa.Table]:
        """The rows of hours that stand for themselves."""
        assert not self._for_period
        return [one.table for one in self.rows_of(part)]

    def rows_of(self, part: HourBlock | HourGrid) -> list[HourRows]:
        spec = self._reader.spec
        window = part.from_ms, part.to_ms
        cluster = self._reader.item.cluster
        asked = Asked(cluster, *window, spec.interval_ms, spec.promise, spec.stamp, spec.clients_between)
        if isinstance(part, HourGrid):
            retries = retry_counts(part.grid)
            groups = pc.unique(part.grid.names["group"]).to_pylist()
            into = {group: (retries.get(group), part.dead_letters.get(group)) for group in groups}
            return self._grids.queues(part.grid, asked, into)
        matrix = Matrix.of(part.samples, part.figures, *window, spec.interval_ms)
        found = tables(matrix, asked, retries_of(matrix, part), queue_histograms=self._for_period)
        return [*map(HourRows, found)]

    def rest(self, *, at_least: int = 0) -> list[pa.Table]:
        """The rows of the group-topics so far, unless they are fewer than `at_least`."""
        return self._grids.topics() if self._grids.waiting >= at_least else []


def retries_of(matrix: Matrix, block: HourBlock) -> dict[str, tuple[int | None, int | None]]:
    """Group → messages into its %RETRY% and %DLQ% topic; a topic that nobody collected is unknown."""
    produced = matrix.produced.sum(axis=1).tolist()
    retry: dict[str, int] = {}
    for key, count in zip(matrix.keys, produced, strict=True):
        if key.kind == "RETRY":
            retry[key.group] = retry.get(key.group, 0) + count
    groups = {key.group for key in matrix.keys}
    return {group: (retry.get(group), block.dead_letters.get(group)) for group in groups}
