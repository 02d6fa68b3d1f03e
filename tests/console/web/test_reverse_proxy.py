"""Whose address counts behind reverse proxies, and who is this machine itself."""

from __future__ import annotations

from typing import Any

import pytest

from console.web.reverse_proxy import is_this_machine, networks, with_client

TRUSTED = networks(["127.0.0.1", "10.0.0.0/24", "fd00::/8"])


def scope(client: str | None, *forwarded: str, **headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    named += [(b"x-forwarded-for", value.encode()) for value in forwarded]
    return {"client": None if client is None else (client, 4711), "headers": named}


@pytest.mark.parametrize(
    ("client", "forwarded", "found"),
    [
        ("127.0.0.1", ("203.0.113.9",), "203.0.113.9"),
        ("127.0.0.1", ("6.6.6.6, 203.0.113.9",), "203.0.113.9"),  # the first one was typed by the client
        ("127.0.0.1", ("6.6.6.6", "203.0.113.9"), "203.0.113.9"),
        ("127.0.0.1", ("203.0.113.9, 10.0.0.7",), "203.0.113.9"),  # two proxies in a row
        ("127.0.0.1", ("203.0.113.9:51234",), "203.0.113.9"),
        ("fd00::1", ("[2001:db8::5]:443",), "2001:db8::5"),
        ("::ffff:127.0.0.1", ("203.0.113.9",), "203.0.113.9"),
        ("127.0.0.1", ("10.0.0.7, 10.0.0.8",), "10.0.0.7"),
        ("127.0.0.1", ("6.6.6.6, <script>, 10.0.0.7",), "10.0.0.7"),
        ("127.0.0.1", ("unknown",), "127.0.0.1"),
        ("127.0.0.1", (), "127.0.0.1"),
        ("203.0.113.9", ("127.0.0.1",), "203.0.113.9"),  # no proxy of ours
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(
    client: str, forwarded: tuple[str, ...], found: str
) -> None:
    assert with_client(scope(client, *forwarded), TRUSTED)["client"][0] == found


def test_nobody_is_believed_without_a_setting() -> None:
    assert with_client(scope("127.0.0.1", "203.0.113.9"), ())["client"] == ("127.0.0.1", 4711)


def test_it_names_an_address_that_is_none() -> None:
    with pytest.raises(ValueError, match="proxy-host"):
        networks(["proxy-host"])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (scope("127.0.0.1", host="127.0.0.1:8000"), True),
        (scope("::1", host="[::1]:8000"), True),
        (scope("127.0.0.1", host="localhost"), True),
        (scope("10.0.0.9", host="127.0.0.1"), False),
        (scope(None, host="localhost"), False),
        (scope("127.0.0.1", "203.0.113.9", host="localhost"), False),
        (scope("127.0.0.1", host="localhost", x_real_ip="203.0.113.9"), False),
        (scope("127.0.0.1", host="console.example.org"), False),
        (scope("127.0.0.1", host="rebound.evil.example:8000"), False),
    ],
)
def test_a_proxied_or_rebound_request_is_not_this_machine(asked: dict[str, Any], expected: bool) -> None:
    assert is_this_machine(asked) is expected
