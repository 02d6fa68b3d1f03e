"""Fixtures shared by all tests: a real Redis-protocol server, a real brokerd."""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_rerunfailures
from django.db import connections
from django.db.backends.signals import connection_created
from pytest_django import DjangoDbBlocker, Settings
from redis import Redis

import console.celery  # noqa: F401  the current Celery application, as in every process of the product
from console.web import quota
from tests.support import emptied, migrated, scratch, twins
from tests.support.broker_process import BrokerProcess
from tests.support.redis_process import RedisProcess
from tests.support.s3_server import S3Server, environment

# How fast a machine makes examples says nothing about the code.
hypothesis.settings.register_profile(
    "any-speed",
    parent=hypothesis.settings(),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any-speed")
# Of every JVM that tests start, Spark's executors too: compiling less halves what those that live for seconds take.
scratch.add_java_options("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Nor do they verify the classes they load: a sixth of what a start of Spark takes.
scratch.add_java_options("-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote")
# Of Spark: rows are few, and to generate and compile Java for each query takes longer than to read them.
scratch.add_java_options("-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN")
# Where the plugin of reruns keeps what crashed workers ran: each test asks it, for 3 ms of CPU and 40 ms of waiting.
# `pytest_handlecrashitem` does without.
pytest_rerunfailures.HAS_PYTEST_HANDLECRASHITEM = False
# What migrations are left to run, none, is seen by `migrate` itself.
connection_created.connect(migrated.fill)
emptied.empty_quickly()
# Most of what is made stays, modules and tests: looking through it every 700 objects took a seventh of their import and
# a twentieth of all.
gc.set_threshold(50_000, 20, 100)


# Fixtures that bring a test its databases, and two that ask for `db` when they run.
DATABASES = {"db", "transactional_db", "django_db_setup", "pair"}
# Beside what starts Spark: harnesses, the arithmetic of reports, what walks all routes, templates and modules, and what
# waits for running clients, for the disk, for workers or for a browser.
LONG = (
    "tests/hard/",
    "tests/spark/",
    "tests/test_",
    "tests/brokerd/store/",
    "tests/brokerd/test_cold_reads.py",
    "tests/consumers/",
    "tests/console/process/",
    "tests/console/lag/history/",
    "tests/console/test_workers.py",
    "tests/console/test_templatetags.py",
    "tests/console/lists/test_reasons.py",
)
# Folders whose collection imports most of the tests, by the first argument of a run.
LARGE = {"tests", "tests/api"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take longest come first, so that the end of a run waits for none of them.

    On PostgreSQL only what has a database runs, and neither is marked as seen by one nor a twin: everything else would
    be the same once more.
    """
    items.sort(key=lambda item: item.get_closest_marker("spark") is None and not item.nodeid.startswith(LONG))
    marked = {item.path for item in items if item.get_closest_marker("one_database")}
    if useless := marked - {item.path for item in items if has_database(item)}:
        raise pytest.UsageError(
            f"marked one_database without a test that has one: {sorted(map(str, useless))}"
        )
    if os.environ.get("DATABASE_URL"):
        config.hook.pytest_deselected(items=[item for item in items if not runs_on_postgresql(item)])
        items[:] = [item for item in items if runs_on_postgresql(item)]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let one worker compile the tests of a fresh checkout, 10 s of CPU, before the others read them compiled.

    The one process on PostgreSQL waits for it too, but compiles beside it where it comes first.
    """
    with Path(__file__).open() as lock:
        if session.config.args[0] in LARGE and session.config.getoption("dist", "no") == "no":
            is_worker = hasattr(session.config, "workerinput")
            try:
                fcntl.flock(lock, (fcntl.LOCK_EX if is_worker else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(lock, fcntl.LOCK_SH)
            if not is_worker:
                fcntl.flock(lock, fcntl.LOCK_UN)
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep nine thousand tests and their modules out of every collection of garbage; they stay to the end anyway."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # extension modules see their objects end


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """Go on after a test that ended its worker: without this the next worker begins with it again."""
    for tests in sched.workqueue.values():
        if crashitem in tests:
            tests[crashitem] = True


def has_database(item: pytest.Item) -> bool:
    """Whether a test would see another database. Spark has none: what its jobs give back is written by other tests."""
    if item.get_closest_marker("spark"):
        return False
    marks = any(item.get_closest_marker(name) for name in ("django_db", "own_database"))
    return marks or not DATABASES.isdisjoint(getattr(item, "fixturenames", ()))


def runs_on_postgresql(item: pytest.Item) -> bool:
    once = item.get_closest_marker("one_database") and not item.get_closest_marker("both_databases")
    return has_database(item) and not once and not twins.is_twin(item)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """End the connections of threads that outlive their tests: PostgreSQL drops no database that has one."""
    yield
    with django_db_blocker.unblock():
        for each in connections.all(initialized_only=True):
            if each.vendor == "postgresql":
                with each.cursor() as cursor:
                    cursor.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """What one test asked for counts for no other: all of them are one process."""
    quota.clear_local()


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A folder whose name is short enough for a Unix socket (108 bytes), unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp(prefix="tm-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_process() -> Iterator[RedisProcess]:
    """The session's server, for tests that kill it: they must start it again."""
    folder = Path(tempfile.mkdtemp(prefix="tm-", dir="/tmp"))
    server = RedisProcess(folder).start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_url(redis_process: RedisProcess, settings: Settings) -> Iterator[str]:
    """Address of an empty Redis; `settings.REDIS_URL` names it too."""
    settings.REDIS_URL = redis_process.url
    with Redis.from_url(redis_process.url) as client:
        client.flushall()
    yield redis_process.url


@pytest.fixture
def brokerd(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running brokerd with an empty store: `.namesrv` and `.address` are host:port; `kill()`, `start()`,
    `stop()`.
    """
    process = BrokerProcess(tmp_path / "store").start()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def s3_process() -> Iterator[S3Server]:
    """The session's S3 server; this process reaches it as any of the product would."""
    server = S3Server().start()
    with environment(server.environ):
        yield server
    server.stop()


@pytest.fixture
def s3_server(s3_process: S3Server) -> Iterator[S3Server]:
    """An S3 server with one empty bucket: `.url` is a folder of it, `.fault()` lets requests fail."""
    s3_process.clear()
    yield s3_process
