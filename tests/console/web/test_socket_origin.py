"""Which pages may open a socket."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from console.web.socket_origin import is_own


def scope(host: str, *origins: str, scheme: str = "ws", **headers: str) -> dict[str, Any]:
    named = [(b"host", host.encode()), *((b"origin", origin.encode()) for origin in origins)]
    named += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "websocket", "path": "/ws/live", "scheme": scheme, "headers": named, "query_string": b""}


@pytest.mark.parametrize(
    ("host", "origin", "scheme", "expected"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000", "ws", True),
        ("localhost", "http://localhost", "ws", True),
        ("localhost:80", "http://localhost", "ws", True),
        ("localhost", "https://localhost:443", "wss", True),
        ("127.0.0.1:8000", "http://127.0.0.1:9000", "ws", False),  # another server on this host
        ("127.0.0.1:8000", "http://127.0.0.1", "ws", False),
        ("localhost", "http://localhost", "wss", False),
        ("127.0.0.1:8000", "http://localhost:8000", "ws", False),
        ("127.0.0.1:8000", "http://evil.example", "ws", False),
        ("evil.example", "http://evil.example", "ws", False),  # no host of ours
        ("127.0.0.1:8000", "null", "ws", False),
        ("127.0.0.1:8000", "http://127.0.0.1:x", "ws", False),
    ],
)
def test_only_a_page_of_the_same_address_and_port_opens_one(
    host: str, origin: str, scheme: str, expected: bool
) -> None:
    assert is_own(scope(host, origin, scheme=scheme)) is expected


def test_one_origin_must_be_named() -> None:
    assert not is_own(scope("localhost"))
    assert not is_own(scope("localhost", "http://localhost", "http://evil.example"))


def test_trusted_origins_may(settings: Settings) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example.org:8443", "https://*.ops.example.org"]
    for origin, expected in {
        "https://console.example.org:8443": True,
        "https://console.example.org": False,
        "https://a.ops.example.org": True,
        "http://a.ops.example.org": False,
        "https://evilops.example.org": False,
    }.items():
        assert is_own(scope("localhost", origin)) is expected, origin


def test_a_proxy_that_ends_tls_is_understood(settings: Settings) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert is_own(scope("localhost", "https://localhost", x_forwarded_proto="https"))
    assert not is_own(scope("localhost", "http://localhost", x_forwarded_proto="https"))
