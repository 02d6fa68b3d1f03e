"""White addresses in all of Java's forms."""

from __future__ import annotations

import pytest

from brokerd.acl.remote_addresses import parse_addresses


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", [], ["192.0.2.7", "::1"]),
        ("*", ["192.0.2.7", "2001:db8::1"], []),
        ("*.*.*.*", ["192.0.2.7"], []),
        ("192.0.2.7", ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.2.8", "192.0.2.77", "2001:db8::1", ""]),
        ("192.0.2.7,192.0.3.8", ["192.0.2.7", "192.0.3.8"], ["192.0.2.8"]),
        ("192.0.2.{7,8}", ["192.0.2.7", "192.0.2.8"], ["192.0.2.9", "192.0.2.78"]),
        ("192.0.2.*", ["192.0.2.0", "192.0.2.255"], ["192.0.3.1"]),
        ("192.0.*.*", ["192.0.3.1"], ["192.1.3.1"]),
        ("192.0.2-5.*", ["192.0.2.9", "192.0.5.9"], ["192.0.1.9", "192.0.6.9"]),
        ("192.0.2.10-20", ["192.0.2.10", "192.0.2.20"], ["192.0.2.9", "192.0.2.21"]),
        ("2001:db8::7", ["2001:db8:0:0:0:0:0:7", "2001:DB8::7"], ["2001:db8::8", "192.0.2.7"]),
        ("2001:db8::{7,8}", ["2001:db8::8"], ["2001:db8::9"]),
        ("2001:db8::*", ["2001:db8::abcd"], ["2001:db8::1:7", "2001:db9::1"]),
        ("2001:db8::1-200:*", ["2001:db8::200:7", "2001:db8::1:7"], ["2001:db8::201:7", "2001:db8::7"]),
        ("1:2:3:4:5:6:7:10-20", ["1:2:3:4:5:6:7:18"], ["1:2:3:4:5:6:7:21"]),
    ],
)
def test_a_pattern_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    addresses = parse_addresses(pattern)
    assert [host for host in matching + others if addresses.matches(host)] == matching


@pytest.mark.parametrize(
    "pattern",
    ["192.0.2", "192.0.2.256", "host", "192.0.2.{7,x}", "192.0.2{7}", "192.0.2.9-3", "192.0.2.-3", "1.2.*.x",
     "2001:db8::1::*", "*:db8::1", "1:2:3:4:5:6:7:8:*", "192.0.2.7,"],
)  # fmt: skip
def test_a_bad_pattern_is_named(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no address: write one like"):
        parse_addresses(pattern)
