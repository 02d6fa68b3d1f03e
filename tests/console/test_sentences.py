"""Sentences that code writes, in the reader's language."""

from __future__ import annotations

import pytest
from django.utils import translation

from console.sentences import said

CASES = {
    "unknown words stay": "unknown words stay",
    "3 queues stay as before": "3 个队列保持不变",
    "1 queue stays as before": "1 个队列保持不变",
    "The disk is full in 3 h 12 m": "磁盘将在 3 小时 12 分后写满",
    # a place may hold a sentence of its own, and one text several sentences
    "2 of 12 queues unknown: broker-b has not answered since 12:00:01: no answer in time": (
        "12 个队列中 2 个未知：broker-b 自 12:00:01 起没有应答：应答超时"
    ),
    "Put it in quarantine first: it is still open on broker-a. Deleting is offered 24 hours later.": (
        "请先隔离：它在 broker-a 上仍开放。24 小时后可以删除。"
    ),
    "This will replay 1,204 messages on 4 queues of orders, written 09:00:00–11:42:00 UTC.": (
        "将在 orders 的 4 个队列上重新消费 1,204 条消息，写入时间 09:00:00–11:42:00 UTC。"
    ),
}


@pytest.mark.parametrize("english", CASES)
def test_it_says_a_sentence_again_in_chinese(english: str) -> None:
    with translation.override("zh-hans"):
        assert said(english) == CASES[english]


@pytest.mark.parametrize("english", CASES)
def test_it_leaves_english_as_it_is(english: str) -> None:
    with translation.override("en"):
        assert said(english) == english


def test_names_in_a_sentence_are_kept_as_they_are() -> None:
    with translation.override("zh-hans"):
        assert said("No group reads %RETRY%a (b) {c}") == "没有消费组消费 %RETRY%a (b) {c}"


def test_a_text_that_is_no_sentence_costs_little_and_stays() -> None:
    with translation.override("zh-hans"):
        assert said("x " * 5_000) == "x " * 5_000
