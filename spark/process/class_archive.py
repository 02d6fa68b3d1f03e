"""The classes that Spark loads, as the JVM has them in memory, kept in a file.

Reading them from jars is half of the start of a JVM. `python -m spark.process.class_archive` makes it, beside
the jobs, once per Spark and Java.

A JVM that finds it unfit (other jars, another Java) starts without. It is as trusted as code: it lies in a folder that
only this user can write to, or is not used.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.process.session import build_session, end, notes_folder

SUFFIX, DRAFT_SUFFIX = ".jsa", ".draft"
DRAFT_AGE_MAX_S = 3_600.0
# Of whatever the others leave: a busy machine of two cores took over three minutes.
JVM_WRITES_WITHIN_S = 1_800.0


def archive_file() -> Path | None:
    """Return the path of the archive; None where there is no private folder."""
    try:
        folder = notes_folder()
        kept = folder.stat()
    except OSError:
        return None
    if kept.st_uid != os.getuid() or kept.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return None
    java = os.path.realpath(
        os.path.join(os.environ["JAVA_HOME"], "bin", "java")
        if os.environ.get("JAVA_HOME")
        else shutil.which("java") or ""
    )
    known = zlib.crc32(f"{pyspark.__version__} {pyspark.__file__} {java}".encode())
    return folder / f"classes-{known:08x}{SUFFIX}"


def java_option() -> str:
    """Return the JVM option that names the archive; "" without one."""
    file = archive_file()
    return f"-XX:SharedArchiveFile={file} -Xlog:cds=off" if file is not None and file.is_file() else ""


def exercise(spark: SparkSession, folder: Path) -> None:
    """Load the classes that the jobs need."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    spark.sparkContext.parallelize([b"a", b"b"], 2).flatMap(lambda item: [(len(item), None)]).collect()
    rows = spark.createDataFrame(pa.table({"id": list(range(100)), "name": ["a", "b"] * 50}))
    rows = rows.repartitionById(2, F.col("id").cast("int") % 2).mapInArrow(same, rows.schema)
    counts = rows.groupBy("name").agg(F.count(F.lit(1)).alias("rows"), F.max("id").alias("last"))
    joined = rows.join(F.broadcast(counts), "name", "left").filter(F.col("last").isNotNull())
    joined.repartition(1).sortWithinPartitions("name", "id").write.parquet(str(folder / "rows"))
    spark.read.parquet(str(folder / "rows")).orderBy("id").limit(10).collect()


def make() -> None:
    """Write the archive unless it exists, at a low priority: nothing waits for it."""
    file = archive_file()
    if file is None or file.exists():
        return
    os.nice(19)
    for old in file.parent.glob(f"*{DRAFT_SUFFIX}"):
        if time.time() - old.stat().st_mtime > DRAFT_AGE_MAX_S:
            old.unlink(missing_ok=True)
    draft = file.with_suffix(f".{os.getpid()}{DRAFT_SUFFIX}")
    spark = build_session("tidemark classes", java_options=f"-XX:ArchiveClassesAtExit={draft} -Xlog:cds=off")
    with tempfile.TemporaryDirectory(prefix="tidemark-classes-") as folder:
        exercise(spark, Path(folder))
    if end(spark, within_s=JVM_WRITES_WITHIN_S) and draft.exists():
        draft.replace(file)


if __name__ == "__main__":
    make()
    sys.exit(0)
