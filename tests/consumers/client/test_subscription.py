from __future__ import annotations

import pytest

from consumers.client.subscription import build_subscription, matches
from consumers.config import InvalidClientConfig
from tests.consumers.records import record


def test_it_takes_everything_for_a_star_or_nothing():
    for expression in ("*", "", "  "):
        subscription = build_subscription("orders", expression, 7)
        assert (subscription.sub_string, list(subscription.tags_set), list(subscription.code_set)) == (
            "*",
            [],
            [],
        )
        assert matches(subscription, record(1))


def test_it_splits_tags_and_hashes_them():
    subscription = build_subscription("orders", "TagB || TagA", 7)
    assert sorted(subscription.tags_set) == ["TagA", "TagB"]
    assert sorted(subscription.code_set) == [2598919, 2598920]
    assert (subscription.sub_version, subscription.expression_type) == (7, "TAG")


def test_it_compares_the_text_of_tags():
    subscription = build_subscription("orders", "AaAa", 7)
    assert matches(subscription, record(1, properties={"TAGS": "AaAa"}))
    assert not matches(subscription, record(1, properties={"TAGS": "BBBB"}))  # same Java hash
    assert not matches(subscription, record(1, properties={}))


def test_it_leaves_sql_to_the_broker():
    subscription = build_subscription("orders", "a > 5", 7, "SQL92")
    assert subscription.sub_string == "a > 5"
    assert matches(subscription, record(1, properties={}))


def test_it_refuses_tags_without_a_name():
    with pytest.raises(InvalidClientConfig, match="names no tag"):
        build_subscription("orders", "||", 7)
