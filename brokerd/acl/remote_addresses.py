"""White addresses of plain_acl.yml: one address, a list, the last part in braces, or a range.

    192.0.2.7    192.0.2.7,192.0.2.8    192.0.2.{7,8}    192.0.2.*    192.0.2-5.*    192.0.2.10-20    *
    2001:db8::7  2001:db8::{7,8}        2001:db8::*      2001:db8::1-200:*

Source: `RemoteAddressStrategyFactory.java`. There what follows the first range of an IPv4 address is ignored; here
every part counts.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

EVERYWHERE = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
Part = tuple[int, int]  # least and greatest value


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """Alternatives of 4 or 8 parts each; an address matches when all parts of one do."""

    alternatives: tuple[tuple[Part, ...], ...] = ()
    is_everywhere: bool = False

    def matches(self, host: str) -> bool:
        if self.is_everywhere:
            return True
        if not self.alternatives:
            return False
        parts = _parts_of(host)
        return any(
            len(parts) == len(ranges)
            and all(low <= part <= high for part, (low, high) in zip(parts, ranges, strict=True))
            for ranges in self.alternatives
        )


def parse_addresses(text: str) -> AddressPattern:
    """Raise ValueError for what is none of the forms. Blank text matches no address."""
    text = text.strip()
    if not text:
        return AddressPattern()
    if text in EVERYWHERE:
        return AddressPattern(is_everywhere=True)
    try:
        if text.endswith("}"):
            head, _, last = text[:-1].partition("{")
            if not head.endswith((".", ":")):
                raise ValueError(text)
            return AddressPattern(tuple(_alternative(head + each.strip()) for each in last.split(",")))
        return AddressPattern(tuple(_alternative(each.strip()) for each in text.split(",")))
    except ValueError:
        raise ValueError(
            f"{text!r} is no address: write one like 192.0.2.7, a list with commas, 192.0.2.{{7,8}}, 192.0.2.* or "
            "192.0.2.10-20"
        ) from None


def _alternative(text: str) -> tuple[Part, ...]:
    if "*" not in text and "-" not in text:
        return tuple((part, part) for part in _parts_of(str(ipaddress.ip_address(text))))
    if ":" in text:
        return _ipv6_range(text)
    parts = text.split(".")
    if len(parts) != 4:
        raise ValueError(text)
    return tuple(_part(part, 10, 255) for part in parts)


def _ipv6_range(text: str) -> tuple[Part, ...]:
    """Ranges may be among the last two groups; `::` stands for the zeros that are missing."""
    left, gap, right = text.partition("::")
    before, after = (side.split(":") if side else [] for side in (left, right))
    missing = 8 - len(before) - len(after)
    if missing < 0 or bool(missing) != bool(gap):
        raise ValueError(text)
    groups = [*before, *["0"] * missing, *after]
    if any("*" in group or "-" in group for group in groups[:-2]):
        raise ValueError(text)
    return tuple(_part(group, 16, 0xFFFF) for group in groups)


def _part(text: str, base: int, greatest: int) -> Part:
    if text == "*":
        return 0, greatest
    low, separator, high = text.partition("-")
    first, last = int(low, base), int(high if separator else low, base)
    if not 0 <= first <= last <= greatest:
        raise ValueError(text)
    return first, last


def _parts_of(host: str) -> tuple[int, ...]:
    """Return the 4 or 8 parts of an address; none for what is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ()
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            packed = address.packed
            return tuple(int.from_bytes(packed[i : i + 2], "big") for i in range(0, 16, 2))
        address = address.ipv4_mapped
    return tuple(address.packed)
