from __future__ import annotations

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.header.admin import (
    QueryConsumeQueueRequestHeader,
    QueryCorrectionOffsetHeader,
    RegisterTopicRequestHeader,
)
from tests.brokerd.remoting.golden_frames import golden_frames

REQUESTS = {
    RequestCode.QUERY_CONSUME_QUEUE: QueryConsumeQueueRequestHeader,
    RequestCode.QUERY_CORRECTION_OFFSET: QueryCorrectionOffsetHeader,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: RegisterTopicRequestHeader,
}


def test_it_reads_every_field_of_captured_requests() -> None:
    read = set()
    for frame in golden_frames():
        if frame.is_request and frame.code in REQUESTS:
            fields = frame.command().ext_fields
            assert REQUESTS[frame.code].from_ext_fields(fields).to_ext_fields() == fields, frame.name
            read.add(frame.code)
    assert read == set(REQUESTS)


def test_it_names_the_field_that_is_missing() -> None:
    with pytest.raises(HeaderFieldError, match="queueId"):
        QueryConsumeQueueRequestHeader.from_ext_fields({"topic": "T", "index": "0", "count": "1"})
