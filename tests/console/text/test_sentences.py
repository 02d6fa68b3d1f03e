"""Sentences that code writes, in the reader's language."""

from __future__ import annotations

import time

import pytest
from django.utils import translation

from console.text.kept_sentences import SENTENCES
from console.text.sentences import LENGTH_MAX, PLACE, said

CASES = {
    "unknown words stay": "unknown words stay",
    "3 clients without a queue": "3 个客户端没有队列",
    "1 client without a queue": "1 个客户端没有队列",
    "The disk is full in 3 h 12 m": "磁盘将在 3 小时 12 分后写满",
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
        assert said("%RETRY%a (b) {c} is added. Its first figures come with the next round.") == (
            "%RETRY%a (b) {c} 已添加。下一轮采集后会有数据。"
        )


def test_a_text_that_is_no_sentence_costs_little_and_stays() -> None:
    with translation.override("zh-hans"):
        assert said("x " * 5_000) == "x " * 5_000


# What was found to cost seconds: many short sentences, and listed sentences whose fixed text is repeated.
HOSTILE = [
    "A. ",
    "A. A %. ",
    "1 of 2 queues unknown: ",
    "a and b, c: ",
    "x of y (z. ",
    "1 m, ",
    '"',
    "A of (A: ",
]


def test_a_hostile_text_costs_milliseconds() -> None:
    """CPU, not wall-clock: 998 characters took 5.8 s."""
    repeated = sorted(SENTENCES, key=lambda each: -len(PLACE.findall(each)))[:40]
    texts = [(each * LENGTH_MAX)[: LENGTH_MAX - 2] for each in HOSTILE]
    texts += [(PLACE.sub("a B", each) + " ") * 200 for each in repeated]
    cost = {}
    with translation.override("zh-hans"):
        said("once, so that the patterns are compiled")
        for text in texts:
            started = time.process_time()
            said(text[: LENGTH_MAX - 2])
            cost[text[:40]] = time.process_time() - started
    assert {text: seconds for text, seconds in cost.items() if seconds > 0.5} == {}


def test_sentences_between_others_are_found() -> None:
    text = "Nothing of ours. 3 clients without a queue. Nor this. 1 client without a queue"
    with translation.override("zh-hans"):
        assert said(text) == "Nothing of ours. 3 个客户端没有队列。Nor this. 1 个客户端没有队列"
