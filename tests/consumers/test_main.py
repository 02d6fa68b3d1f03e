from __future__ import annotations

import pytest

from consumers.__main__ import load_handler, main, parse_arguments, subscriptions_of
from consumers.config import InvalidClientConfig


def test_it_reads_topics_with_and_without_tags():
    assert subscriptions_of(["orders", "clicks:view||buy"]) == {"orders": "*", "clicks": "view||buy"}


def test_it_takes_the_name_server_from_the_environment_unless_told():
    arguments = parse_arguments(["demo"], "from-environment:9876")
    assert arguments.namesrv == "from-environment:9876"
    assert parse_arguments(["demo", "--namesrv", "x:1"], "from-environment:9876").namesrv == "x:1"


def test_it_loads_a_handler():
    assert load_handler("tests.consumers.test_main:test_it_loads_a_handler") is test_it_loads_a_handler


@pytest.mark.parametrize(
    "name", ["nothing", "no_such_module:handle", "consumers:nothing", "consumers:__all__"]
)
def test_it_says_which_handler_it_cannot_load(name):
    with pytest.raises(InvalidClientConfig, match=name):
        load_handler(name)


def test_it_ends_with_2_when_an_argument_is_wrong(capsys):
    assert main(["run", "no_such_module:handle", "--group", "g", "--topic", "t"], "127.0.0.1:1") == 2
