"""One Spark for all tests of jobs: a JVM takes seconds to start."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark.process.java import java_problem
from spark.process.session import build_session, package_shipped


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it speaks up when the log is closed already
    assert java_problem() is None, java_problem()
    session = build_session("tidemark tests", master="local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")  # a few rows: every further task is overhead
    with package_shipped(session):
        yield session
    session.stop()
