"""Where the jobs run: `local[*]` in this process, a Spark cluster's master, or a Spark Connect server: by settings."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from spark.java import JavaMissing, java_problem

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Work items are few and fat (an hour of a cluster each); the default of 200 partitions is all overhead.
    "spark.sql.shuffle.partitions": "8",
}
# Of a JVM of our own. The page shows the progress; a second web server on this machine would only be found by others.
OWN_JVM_SETTINGS = {"spark.ui.enabled": "false"}
# With local[*] nothing is to be reached from outside; a cluster's executors must reach the driver.
LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # A JVM that lives for seconds and leaves the arithmetic to NumPy: compiling less halves its CPU (26 s to 13 s for
    # one hour on two busy cores).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
LOCAL_MASTER = "local[*]"


def session_settings(*, remote: str = "", master: str = "") -> dict[str, str]:
    """The settings of a session, by where it runs."""
    if remote:
        return SETTINGS
    local = LOCAL_SETTINGS if _is_local(master) else {}
    return {**SETTINGS, **OWN_JVM_SETTINGS, **local}


def build_session(app_name: str, *, remote: str = "", master: str = "") -> SparkSession:
    """The session of one job.

    `remote` is a Spark Connect URL (sc://host:port) and wins; `master` is a cluster's master (spark://host:port);
    neither means local[*]. Raises JavaMissing when a JVM is needed here and there is none.
    """
    builder = SparkSession.builder.appName(app_name)
    for key, value in session_settings(remote=remote, master=master).items():
        builder = builder.config(key, value)
    if remote:
        return builder.remote(remote).getOrCreate()
    problem = java_problem()
    if problem:
        raise JavaMissing(problem)
    if _is_local(master):
        # The executors must run the interpreter that has NumPy and pyarrow; read when the JVM starts.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return builder.master(master or LOCAL_MASTER).getOrCreate()


def _is_local(master: str) -> bool:
    return not master or master.startswith("local")


@contextmanager
def package_shipped(spark: SparkSession) -> Iterator[None]:
    """Give this package, and the codecs of the wire that it reads stores with, to the executors, wherever they run:
    their Python has the libraries, not our code.
    """
    root = Path(__file__).parent.parent
    sources = [
        *(root / "spark").rglob("*.py"),
        root / "brokerd/__init__.py",
        *(root / "brokerd/remoting").glob("*.py"),
    ]
    with tempfile.TemporaryDirectory(prefix="tidemark-spark-") as folder:
        archive = Path(folder) / "tidemark_jobs.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            for source in sorted(sources):
                packed.write(source, source.relative_to(root))
        spark.addArtifacts(str(archive), pyfile=True)
        yield
