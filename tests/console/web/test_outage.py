"""A database that is away is told in one line now and then, not in forty thousand a minute."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from django.db import OperationalError

from console.web import outage
from console.web.outage import OneLine


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(OneLine())
    logger = logging.getLogger("tests.outage")
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)


def fail(logger: logging.Logger, error: Exception, text: str = "round failed cluster=%s") -> None:
    try:
        raise error
    except type(error):
        logger.exception(text, "local")


def test_it_writes_one_line_and_counts_the_others(
    written: tuple[logging.Logger, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, stream = written
    for _ in range(5):
        fail(logger, OperationalError("disk I/O error"))
    fail(logger, OperationalError("connection refused"))
    assert stream.getvalue().splitlines() == [
        "round failed cluster=local: disk I/O error",
        "round failed cluster=local: connection refused",
    ]
    monkeypatch.setattr(outage, "AGAIN_AFTER_S", 0.0)
    fail(logger, OperationalError("disk I/O error"), "task of %s raised OperationalError('disk I/O error')")
    assert stream.getvalue().splitlines()[2:] == [
        "task of local raised OperationalError('disk I/O error') (4 more like it before)"
    ]


@pytest.mark.parametrize(
    "error", [OperationalError("no such column: x"), ZeroDivisionError("division by zero")]
)
def test_it_leaves_our_own_faults_their_traceback(
    written: tuple[logging.Logger, io.StringIO], error: Exception
) -> None:
    logger, stream = written
    for _ in range(2):
        fail(logger, error)
    assert stream.getvalue().count("Traceback") == 2
