from __future__ import annotations

from consumers.consumer.send_back import retry_message, send_back_request
from tests.consumers.records import record


def test_it_asks_with_the_place_of_the_message():
    request = send_back_request(record(7), "broker-a", "billing", delay_level=0, max_reconsume_times=-1)
    assert request.code == 36
    assert request.ext_fields == {
        "offset": "1007",
        "group": "billing",
        "delayLevel": "0",
        "originMsgId": "key-7",
        "originTopic": "orders",
        "unitMode": "false",
        "bname": "broker-a",
    }


def test_it_leaves_the_limit_to_the_group_unless_it_is_set():
    request = send_back_request(record(7), "broker-a", "billing", delay_level=2, max_reconsume_times=3)
    assert (request.ext_fields["delayLevel"], request.ext_fields["maxReconsumeTimes"]) == ("2", "3")


def test_it_copies_the_message_for_the_retry_topic():
    original = record(
        7, b"body", reconsume_times=1, properties={"UNIQ_KEY": "key", "TAGS": "paid", "DELAY": "4"}
    )
    message = retry_message(original, "billing", delay_level=0, max_reconsume_times=16)
    assert (message.topic, message.body) == ("%RETRY%billing", b"body")
    assert message.properties == {
        "UNIQ_KEY": "key",
        "TAGS": "paid",
        "ORIGIN_MESSAGE_ID": "key",
        "RETRY_TOPIC": "orders",
        "RECONSUME_TIME": "2",
        "MAX_RECONSUME_TIMES": "16",
        "DELAY": "4",
    }


def test_it_keeps_the_first_id_and_a_delay_level_that_exists():
    original = record(7, reconsume_times=40, properties={"UNIQ_KEY": "key", "ORIGIN_MESSAGE_ID": "first"})
    message = retry_message(original, "billing", delay_level=0, max_reconsume_times=-1)
    assert message.properties["ORIGIN_MESSAGE_ID"] == "first"
    assert message.properties["DELAY"] == "18"
    assert "MAX_RECONSUME_TIMES" not in message.properties
