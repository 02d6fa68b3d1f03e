"""A run's output: the Parquet files that the job wrote below REPORTS_URL, as the console finds them.

    runs/<job>/<run>/attempt-<n>/part-<period>-<grain>-<n>.parquet    rows of one window and grain
                                 part-00000.parquet                   of a report with few rows: all of them
                                 <grain>/part-00000.parquet           small tables made of the others
    folds/…                                                           of the jobs alone (`spark.sources.stored_folds`)

An attempt has a folder of its own, as one that lost its lease may still be writing. The files of single queues stay
where they are (`console.report.kept_rows.queue_files`); the rest of a folder is deleted some runs later.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from django.conf import settings
from fsspec.implementations.local import LocalFileSystem

from console.report.models import OPEN_STATES, QueueRowFile, ReportRun
from console.report.process import ReportFailed
from console.report.rules import OUTPUTS_KEPT
from console.text import Text

PART_NAME = re.compile(r"part-\d{5}-(?P<grain>[a-z]+)-\d{3}\.parquet")
PRUNED_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the rows of one grain and window; `ends` are its first and last group."""

    path: str  # as its file system takes it
    grain: str
    window_start_ms: int
    window_end_ms: int
    ends: tuple[str, str]
    rows: int
    bytes: int


class Output:
    """The files of one attempt. Raises OSError and pyarrow's errors."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files, self.folder = fsspec.core.url_to_fs(url)
        self.files.invalidate_cache()

    def open(self, path: str) -> pq.ParquetFile:
        """Open one of its files."""
        return pq.ParquetFile(self.files.open(path, "rb"))

    def parts(self) -> list[Part]:
        """Return the files that have one window each, in the order of their rows."""
        found = []
        for path in self._names(self.folder):
            name = PART_NAME.fullmatch(posixpath.basename(path))
            if name is not None:
                found.append(self._part(path, name["grain"]))
        return found

    def table(self, below: str = "") -> pa.Table | None:
        """Return the rows of `part-00000.parquet` in the folder or one below; None without it."""
        path = posixpath.join(self.folder, below, "part-00000.parquet")
        if not self.files.exists(path):
            return None
        with self.open(path) as parquet:
            return parquet.read()

    def require_rows(self, rows: int, counted: int) -> None:
        """Raise ReportFailed when the files have another number of rows than the job reports."""
        if rows != counted:
            raise ReportFailed(
                Text(
                    "The job made %(number)s rows, and %(found)s are in its output %(folder)s: earlier "
                    "rows are kept. Set REPORTS_URL to storage that the console and every Spark worker "
                    "share.",
                    number=str(rows),
                    found=str(counted),
                    folder=self.url,
                )
            )

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(self.files.ls(folder, detail=False))
        except FileNotFoundError:
            return []

    def _part(self, path: str, grain: str) -> Part:
        with self.open(path) as parquet:
            last = parquet.metadata.num_row_groups - 1
            ends = ["window_start_ms", "window_end_ms", "group"]
            head, tail = (parquet.read_row_group(number, ends) for number in (0, last))
            rows = parquet.metadata.num_rows
        start_ms = head["window_start_ms"][0].as_py()
        if tail["window_start_ms"][-1].as_py() != start_ms:
            raise ReportFailed(
                Text("%(path)s has rows of several windows; every part must belong to one window.", path=path)
            )
        groups = head["group"][0].as_py(), tail["group"][-1].as_py()
        end_ms = head["window_end_ms"][0].as_py()
        return Part(path, grain, start_ms, end_ms, groups, rows, int(self.files.size(path)))


def local_or_url(url: str) -> str:
    """Return a local path for a file:// address, and any other as it is."""
    return url.rstrip("/").removeprefix("file://")


def output_url(run: ReportRun) -> str:
    """Return where the files of the run's present attempt belong."""
    return f"{local_or_url(str(settings.REPORTS_URL))}/{_run_folder(run)}/attempt-{run.attempts}"


def folds_url() -> str:
    """Return where the folds of hours are stored, from which days and weeks are made."""
    return f"{local_or_url(str(settings.REPORTS_URL))}/folds"


def below_reports_url(part: Part) -> str:
    """Return the path of a file below REPORTS_URL."""
    _, root = fsspec.core.url_to_fs(local_or_url(str(settings.REPORTS_URL)))
    return posixpath.relpath(part.path, root)


def prune(job: str) -> None:
    """Delete files that are no longer read: of failed and older runs everything but queue rows."""
    over = ReportRun.objects.filter(job=job).exclude(output="").exclude(state__in=OPEN_STATES)
    done = over.filter(state=ReportRun.State.SUCCEEDED).order_by("-finished_at_ms")
    kept = set(done.values_list("pk", flat=True)[:OUTPUTS_KEPT])
    for run in over.exclude(pk__in=kept).order_by("finished_at_ms")[:PRUNED_AT_ONCE]:
        named = set(QueueRowFile.objects.filter(run=run).values_list("path", flat=True))
        _delete(_run_folder(run), named)
        ReportRun.objects.filter(pk=run.pk).update(output="")


def delete(run: ReportRun) -> None:
    """Delete all files of a run, those of single queues included."""
    _delete(_run_folder(run), set())


def delete_folds(cluster: str) -> None:
    """Delete the folds of a cluster: no report of it will expire them."""
    _delete(f"folds/cluster={cluster}", set())


def _run_folder(run: ReportRun) -> str:
    return f"runs/{run.job}/{run.pk}"


def _delete(folder: str, named: Set[str]) -> None:
    files, root = fsspec.core.url_to_fs(local_or_url(str(settings.REPORTS_URL)))
    found: Sequence[str] = files.find(posixpath.join(root, folder))
    for path in found:
        if posixpath.relpath(path, root) not in named:
            with suppress(FileNotFoundError):
                files.rm_file(path)
                remove_empty_folders(files, path)


def remove_empty_folders(files: Any, path: str) -> None:
    """Remove the folders of a run that a deleted file leaves empty; object storage has none."""
    if isinstance(files, LocalFileSystem):
        folder = posixpath.dirname(path)
        with suppress(OSError):
            while posixpath.basename(folder) != "runs":
                files.rmdir(folder)
                folder = posixpath.dirname(folder)
