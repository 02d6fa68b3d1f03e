"""Where the jobs run, by settings: in this process, in a warm server, or on a cluster.

`local[*]` in this process or in a warm server that later runs find again, a Spark cluster's master, or a
Spark Connect server.

The warm server is Spark's own reuse of a local Connect server (`SPARK_LOCAL_CONNECT_REUSE`): the first run starts it, a
run after it saves the start of a JVM and its warming up. `manage.py up` has one of its own, which ends with it; another
stays until `python -m pyspark.sql.connect.local_server --stop`.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.process.java import JavaMissing, java_problem

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Work items are few and fat (an hour of a cluster each); the default of 200 partitions is all overhead.
    "spark.sql.shuffle.partitions": "8",
    # A plan that turns out empty would be cut short, and with it what was observed on the way: the warnings.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
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
    # Workers are forked from a process that has imported what they need.
    "spark.python.daemon.module": "spark.python_daemon",
}
CHECKOUT = Path(__file__).parent.parent.parent
LOCAL_MASTER = "local[*]"
# The server is compiled for the long run, so without the settings of a short-lived JVM.
WARM_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.local.connect.reuse": "true",
}
MASTER_ANSWERS_WITHIN_S = 5.0
EXECUTOR_WITHIN_S = 60.0
JVM_ENDS_WITHIN_S = 5.0
RANGE_ROWS = 1 << 16  # more than any cluster has cores
DEFAULT_PORTS = {"spark": 7077, "sc": 15002}


class SparkAway(RuntimeError):
    """The Spark cluster of the settings does not answer, or gives no executor."""


def session_settings(*, remote: str = "", master: str = "", java_options: str = "") -> dict[str, str]:
    """Return the settings of a session, by where it runs; `java_options` are for its own JVM on this machine."""
    if remote:
        return SETTINGS
    local = LOCAL_SETTINGS if is_local(master) else {}
    settings = {**SETTINGS, **OWN_JVM_SETTINGS, **local}
    if local and java_options:
        settings["spark.driver.extraJavaOptions"] += f" {java_options}"
    return settings


def build_session(
    app_name: str, *, remote: str = "", master: str = "", reuse: bool = False, java_options: str = ""
) -> SparkSession:
    """Build the session of one job, of Spark SQL; `build_context` is enough for a job without queries.

    `remote` is a Spark Connect URL (sc://host:port) and wins; `master` is a cluster's master (spark://host:port);
    neither means local[*], with `reuse` in the warm server, and without it where that does not come up. Raises
    JavaMissing when a JVM is needed here and there is none, SparkAway when the address does not answer.
    """
    require_answer(remote or master)
    if reuse and not remote and not master:
        warm = _warm_session(app_name)
        if warm is not None:
            return warm
    if remote:
        builder = SparkSession.builder.appName(app_name)
        for key, value in session_settings(remote=remote).items():
            builder = builder.config(key, value)
        return builder.remote(remote).getOrCreate()
    return session_of(build_context(app_name, master=master, java_options=java_options))


def build_context(app_name: str, *, master: str = "", java_options: str = "") -> SparkContext:
    """Build what runs Python on executors without Spark SQL, which takes as long again to start.

    Place and errors are those of `build_session`; Spark Connect has none.
    """
    require_answer(master)
    problem = java_problem()
    if problem:
        raise JavaMissing(problem)
    if is_local(master):
        # The executors must run the interpreter that has NumPy and pyarrow; read when the JVM starts. They import this
        # package from where it is.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        paths = [str(CHECKOUT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    conf = SparkConf().setAppName(app_name).setMaster(master or LOCAL_MASTER)
    conf.setAll(list(session_settings(master=master, java_options=java_options).items()))
    context = SparkContext.getOrCreate(conf)
    if master.startswith("spark://"):
        _require_executor(context, master)
    return context


def session_of(context: SparkContext) -> SparkSession:
    """Return Spark SQL on top of a context."""
    return SparkSession.builder.config(conf=context.getConf()).getOrCreate()


def context_of(spark: SparkSession | SparkContext) -> SparkContext | None:
    """Return what runs Python on executors without Spark SQL; Spark Connect has none."""
    if isinstance(spark, SparkContext):
        return spark
    return None if _is_remote(spark) else spark.sparkContext


def cores_of(spark: SparkSession | SparkContext) -> int:
    """Return how many tasks run at a time where the jobs run."""
    context = context_of(spark)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    # Spark Connect has no context; a range has as many partitions as there are cores
    partitions = cast(SparkSession, spark).range(RANGE_ROWS).select(F.spark_partition_id())
    return max(1, partitions.distinct().count())


def is_alive(spark: SparkSession | SparkContext) -> bool:
    """Return whether an earlier session can still be used.

    Of Spark Connect only the port is tried: the client itself would try for minutes.
    """
    context: Any = context_of(spark)
    if context is not None:
        try:
            return context._gateway.proc.poll() is None and not context._jsc.sc().isStopped()
        except (Py4JError, OSError):
            return False
    client: Any = cast(SparkSession, spark).client
    host, _, port = client._builder.endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), MASTER_ANSWERS_WITHIN_S).close()
    except OSError:
        return False
    return True


def _is_remote(session: SparkSession) -> bool:
    """Return whether it is a Spark Connect session, without importing that: pyspark's check is about the process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def end(spark: SparkSession | SparkContext, *, within_s: float = JVM_ENDS_WITHIN_S) -> bool:
    """Stop a session and wait for its own JVM to end, which removes its temporary files; return whether it did in time.

    Without the wait it may be killed with this process.
    """
    context: Any = context_of(spark)
    own = None if context is None else context._gateway.proc
    spark.stop()
    if own is None:
        return True
    try:
        own.stdin.close()  # which it takes as the end
        own.wait(within_s)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return True


def require_answer(url: str, *, within_s: float = MASTER_ANSWERS_WITHIN_S) -> None:
    """Raise SparkAway unless a port is open at one of the addresses of a spark:// or sc:// URL.

    Spark itself tries for minutes.
    """
    found = re.match(r"(spark|sc)://([^/;?]+)", url)
    if found is None:
        return
    reasons = []
    for address in found.group(2).split(","):
        host, _, port = address.rpartition(":") if ":" in address else (address, "", "")
        try:
            with socket.create_connection(
                (host.strip("[]"), int(port or DEFAULT_PORTS[found.group(1)])), within_s
            ):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise SparkAway(
        f"No Spark answers at {url} ({'; '.join(reasons)}). Start it, or correct SPARK_MASTER and SPARK_REMOTE."
    )


def has_executor(context: SparkContext) -> bool:
    """Return whether a cluster has given an executor. Raises Py4JError and OSError when the driver is gone."""
    executors: int = context._jsc.sc().getExecutorMemoryStatus().size()
    return executors > 1  # the driver is one of them


def _require_executor(context: SparkContext, master: str) -> None:
    """Raise SparkAway for a cluster without a free worker: the job would wait for ever."""
    deadline = time.monotonic() + EXECUTOR_WITHIN_S
    while not has_executor(context):
        if time.monotonic() > deadline:
            context.stop()
            raise SparkAway(
                f"{master} gave no executor within {EXECUTOR_WITHIN_S:.0f} s: no worker is up or all are busy."
            )
        time.sleep(0.1)


def _warm_session(app_name: str) -> SparkSession | None:
    """Return a session of the warm server, which is started if needed; None where that fails."""
    problem = java_problem()
    if problem:
        raise JavaMissing(problem)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_CONNECT_DISCOVERY", str(warm_server_note()))
    builder = SparkSession.builder.appName(app_name)
    for key, value in {**SETTINGS, **WARM_SETTINGS}.items():
        builder = builder.config(key, value)
    try:
        session = builder.remote(LOCAL_MASTER).getOrCreate()
        session.range(1).count()
    except (PySparkException, OSError, RuntimeError) as error:
        sys.stdout.write(f"the warm Spark server does not come up, this run starts its own Spark: {error}\n")
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
        return None
    return session


def warm_server_note() -> Path:
    """Return the file with the warm server's address: one server per user and Python environment."""
    environment = zlib.crc32(sys.prefix.encode())
    folder = Path(tempfile.gettempdir()) / f"tidemark-spark-{getpass.getuser()}-{environment:08x}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / "connect-local.json"


def notes_folder() -> Path:
    """Return the folder of a warm server's address: the data folder of the product, if it names one."""
    named = os.environ.get("SPARK_LOCAL_CONNECT_DISCOVERY")
    folder = Path(named).parent if named else warm_server_note().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def is_local(master: str) -> bool:
    """Return whether a master is this machine; "" is."""
    return not master or master.startswith("local")


@contextmanager
def package_shipped(spark: SparkSession | SparkContext) -> Iterator[None]:
    """Ship this package, and the wire codecs with which it reads stores, to the executors of a cluster.

    Their Python has the libraries, not this code. On this machine they import it from where it is.
    """
    context = context_of(spark)
    if context is not None and is_local(str(context.master)):
        yield
        return
    sources = [
        *(CHECKOUT / "spark").rglob("*.py"),
        CHECKOUT / "brokerd/__init__.py",
        *(CHECKOUT / "brokerd/remoting").rglob("*.py"),
    ]
    with tempfile.TemporaryDirectory(prefix="tidemark-spark-") as folder:
        archive = Path(folder) / "tidemark_jobs.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            for source in sorted(sources):
                packed.write(source, source.relative_to(CHECKOUT))
        if context is not None:
            context.addPyFile(str(archive))
        else:
            cast(SparkSession, spark).addArtifacts(str(archive), pyfile=True)
        yield
