"""The request and the result of a report job: plain values that travel as JSON between processes.

The console writes a `JobSpec`, starts `python -m spark.jobs.<job>` with it on its input, and reads a `JobResult` from
the last line of standard output. The spec holds everything the job depends on, so the same spec gives the same report.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec

from spark.lag.local_time import HOUR_MS, STEP_MS, UTC, zone_problem
from spark.lag.round.filter_ratio import FilterSample

# A month of hourly work items for a hundred clusters; a longer report is requested in parts.
HOURS_MAX = 31 * 24 * 100


class JobSpecError(ValueError):
    """The spec cannot be run; the message names the field and the reason."""


class JobFailed(Exception):
    """The job cannot make a report; the message gives the reason and the remedy."""


class UnreadFile(msgspec.Struct, frozen=True):
    """A history file that could not be read, and why."""

    path: str
    reason: str


class HourFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One hour of one cluster and every history file (path or fsspec URL) that holds some of it.

    `older` are files that hold nothing of the hour but some of the time before: they are opened only for an hour in the
    log, whose segments do not know the sample before them. `content` is the checksum of the one hour file that all of
    the hour comes from, by itself or in the file of its day; "": there is no such file. `fold` is the folder of its
    stored fold, named when the work is cut into items; "": there can be none.
    """

    cluster: str
    hour_ms: int
    files: tuple[str, ...]
    older: tuple[str, ...] = ()
    content: str = ""
    fold: str = ""


class StoreFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder with `commitlog` and `consumequeue` of one broker: its own (read only) or a copy."""

    cluster: str
    broker_name: str
    path: str


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No message waits longer than `slo_ms` for `target` of the time, from `from_ms` until the next version."""

    slo_ms: int
    target: float
    from_ms: int = 0


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One run of one report job over [from_ms, to_ms), epoch milliseconds UTC, quarters of an hour.

    Days and weeks are those of `zone`; `hours` are of UTC, and of the first and last of them some may lie outside.

    `output` is the folder that the Parquet files come into; whatever is there is replaced. `slo_ms` is how long a
    message may wait before its minute is a breach, and `slo_target` the share of time in which none should, unless
    `slos` has the group's own promises, version after version; `interval_ms` the collector's period, `lookback_ms` how
    far back the sample before an hour is looked for in `older` files. `recovery_ms`: how fast a backlog should be gone
    (capacity).
    `clients`: members of each group now, where known; `client_changes`: of each group (since when, how many), the
    first as of `from_ms`; `filter_samples`: of each filtering group (when, how many matched, of how many).
    `stores`: brokers whose files may be read. `remote`, `master`, `reuse`: where it runs (`spark.process.session`).
    `folds`: the folder of stored folds of hours (`spark.sources.stored_folds`); "": none.
    """

    job: str
    job_id: str
    from_ms: int
    to_ms: int
    hours: tuple[HourFiles, ...]
    output: str
    # The running hour counts up to here.
    as_of_ms: int
    zone: str = UTC
    slo_ms: int = 60_000
    interval_ms: int = 5_000
    slo_target: float = 0.99
    slos: dict[str, tuple[Promise, ...]] = msgspec.field(default_factory=dict)
    lookback_ms: int = HOUR_MS
    recovery_ms: int = HOUR_MS
    clients: dict[str, int] = msgspec.field(default_factory=dict)
    client_changes: dict[str, tuple[tuple[int, int], ...]] = msgspec.field(default_factory=dict)
    filter_samples: dict[str, tuple[tuple[int, int, int], ...]] = msgspec.field(default_factory=dict)
    stores: tuple[StoreFolder, ...] = ()
    code_version: str = ""
    folds: str = ""
    remote: str = ""
    master: str = ""
    reuse: bool = False

    def __post_init__(self) -> None:
        if self.from_ms % STEP_MS or self.to_ms % STEP_MS:
            raise JobSpecError(f"window {self.from_ms}..{self.to_ms} is not whole quarters of an hour")
        if problem := zone_problem(self.zone):
            raise JobSpecError(f"zone: {problem}")
        if self.from_ms >= self.to_ms:
            raise JobSpecError(f"window is empty: from_ms {self.from_ms} is not before to_ms {self.to_ms}")
        if len(self.hours) > HOURS_MAX:
            raise JobSpecError(f"{len(self.hours)} hours at once; at most {HOURS_MAX}")
        if self.interval_ms <= 0 or self.slo_ms < 0 or self.lookback_ms < 0:
            raise JobSpecError("interval_ms must be above 0, slo_ms and lookback_ms not below")
        if not 0 <= self.slo_target < 1:
            raise JobSpecError(f"slo_target {self.slo_target} is no share below 1")
        for group, versions in self.slos.items():
            if any(one.slo_ms < 0 or not 0 <= one.target < 1 for one in versions):
                raise JobSpecError(f"slos: of {group}, slo_ms must not be below 0 and target a share below 1")
            if any(later.from_ms <= one.from_ms for one, later in pairwise(versions)):
                raise JobSpecError(f"slos: of {group}, every version must begin after the one before")
        if self.recovery_ms <= 0:
            raise JobSpecError("recovery_ms must be above 0")
        if not self.output:
            raise JobSpecError("output names no folder")
        for hour in self.hours:
            if hour.hour_ms % HOUR_MS or not self.from_ms - HOUR_MS < hour.hour_ms < self.to_ms:
                raise JobSpecError(f"hour {hour.hour_ms} is not a whole hour of {self.from_ms}..{self.to_ms}")

    @property
    def stamp(self) -> dict[str, Any]:
        """Return the columns about the making of a row, from the spec alone: the same spec gives the same bytes."""
        return {"generated_at_ms": self.as_of_ms, "job_id": self.job_id, "code_version": self.code_version}

    def promise(self, group: str, at_ms: int) -> Promise:
        """Return the promise that an hour is judged by: the version in force when the hour of `at_ms` began."""
        hour_ms = at_ms - at_ms % HOUR_MS
        in_force = [one for one in self.slos.get(group, ()) if one.from_ms <= hour_ms]
        return in_force[-1] if in_force else Promise(self.slo_ms, self.slo_target)

    def promises(self, group: str, from_ms: int, to_ms: int) -> list[tuple[Promise, int]]:
        """Return the versions that the hours of [from_ms, to_ms) are judged by, in order, each with its time."""
        first_ms = from_ms - from_ms % HOUR_MS
        starts = {one.from_ms + -one.from_ms % HOUR_MS for one in self.slos.get(group, ())}
        edges = [from_ms, *sorted(at_ms for at_ms in starts if first_ms < at_ms < to_ms), to_ms]
        return [(self.promise(group, a), b - a) for a, b in pairwise(edges)]

    def clients_between(self, group: str, from_ms: int, to_ms: int) -> tuple[int | None, int | None]:
        """Return the least and the most members of a group in [from_ms, to_ms); None: unknown."""
        changes = self.client_changes.get(group, ())
        before = [count for since_ms, count in changes if since_ms <= from_ms][-1:]
        found = [*before, *(count for since_ms, count in changes if from_ms < since_ms < to_ms)]
        return min(found, default=None), max(found, default=None)

    def filter_between(self, group: str, from_ms: int, to_ms: int) -> FilterSample:
        """Return how many of a group's messages were looked at in [from_ms, to_ms), and how many passed its filter."""
        own = [one for one in self.filter_samples.get(group, ()) if from_ms <= one[0] < to_ms]
        return FilterSample(sum(one[1] for one in own), sum(one[2] for one in own), len(own))

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> JobSpec:
        """Parse a spec. Raises JobSpecError for invalid JSON and for missing, unknown or mistyped fields."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise JobSpecError(f"not a job spec: {error}") from error


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. `output` is a folder of Parquet files, all of which exist.

    `unread`: history files that some task could not read. `lost_ms`: the starts of periods of which nothing could be
    read; they have no rows, and those of an earlier run are to stay. `warnings`: sentences about anything else.
    """

    job_id: str
    output: str
    rows: int
    hours: int
    elapsed_ms: int
    spark_version: str
    warnings: tuple[str, ...] = ()
    unread: tuple[UnreadFile, ...] = ()
    lost_ms: tuple[int, ...] = ()

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()
