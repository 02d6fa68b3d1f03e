from __future__ import annotations

import pytest

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.errors import (
    ERRORS,
    ConsumerNotOnline,
    CorruptRecord,
    FrameTooLarge,
    HeaderFieldError,
    MQBrokerError,
    RemotingError,
    TopicNotExist,
    TornRecord,
    error_for,
)
from tests.brokerd.remoting.golden_frames import golden_frames


def test_it_makes_the_error_of_a_code() -> None:
    error = error_for(17, "No topic route info")
    assert isinstance(error, TopicNotExist)
    assert (error.code, error.remark, error.retriable) == (17, "No topic route info", True)
    assert str(error) == "TOPIC_NOT_EXIST (17): No topic route info"
    assert isinstance(error_for(ResponseCode.CONSUMER_NOT_ONLINE, None), ConsumerNotOnline)


def test_it_keeps_codes_that_nobody_knows() -> None:
    error = error_for(4711, None)
    assert type(error) is MQBrokerError
    assert str(error) == "UNKNOWN_CODE (4711): no remark"


def test_it_retries_what_javas_producer_retries() -> None:
    producer = {17, 14, 1, 2, 16, 204, 205, 1500}
    others = {24, 215}  # the next heartbeat, or a pause, makes these go away
    assert {code for code, error in ERRORS.items() if error.retriable} == producer | others


def test_it_tells_wire_errors_from_answers() -> None:
    for error in (
        FrameTooLarge(5, 4),
        HeaderFieldError("a", None, "is required"),
        TornRecord(),
        CorruptRecord(),
    ):
        assert isinstance(error, RemotingError)
        assert not isinstance(error, MQBrokerError)


@pytest.mark.parametrize("enum", [RequestCode, ResponseCode])
def test_it_has_no_code_twice(enum: type[RequestCode] | type[ResponseCode]) -> None:
    assert len({int(code) for code in enum}) == len(enum.__members__)


def test_it_names_every_captured_code() -> None:
    for frame in golden_frames():
        if frame.manifest["name"] != "UNKNOWN":
            assert RequestCode(frame.code).name == frame.manifest["name"], frame.name
        if not frame.is_request:
            assert frame.manifest["response_code"] in set(ResponseCode), frame.name
