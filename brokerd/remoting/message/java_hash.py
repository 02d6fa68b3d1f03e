"""Java's String.hashCode, as fast as pure Python gives it (hot path: index and tags).

h = 31·h + unit over UTF-16 units, mod 2³². For ASCII the bytes are the units, and the sum of byte·31^k is one
`sum(map(mul, …))`: 1.4 µs instead of 2.0 µs for 32 characters (hot-path rule 13). The caller keeps the hash of a
repeated prefix: h(ab) = h(a)·31^len(b) + h(b).
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul

MASK = 0xFFFFFFFF
# Longer keys take the plain loop, which keeps the table of powers small.
KEY_BYTES_TABLE_MAX = 512


@lru_cache(maxsize=KEY_BYTES_TABLE_MAX + 1)
def powers(length: int) -> tuple[int, ...]:
    """Return (31^(length-1), …, 31, 1), each mod 2³²."""
    return tuple(pow(31, exponent, 1 << 32) for exponent in range(length - 1, -1, -1))


def java_hash(text: bytes) -> int:
    """Return String.hashCode of UTF-8 `text` as an unsigned 32-bit number."""
    length = len(text)
    if length <= KEY_BYTES_TABLE_MAX and text.isascii():
        total: int = sum(map(mul, text, powers(length)))
        return total & MASK
    return _java_hash_of_units(text.decode("utf-8", "replace"))


def _java_hash_of_units(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & MASK
    return value


def java_hash_joined(prefix_hash: int, text: bytes) -> int:
    """Return the unsigned hash of prefix + `text`, given the hash of the prefix."""
    if text.isascii():
        length = len(text)
    else:
        length = len(text.decode("utf-8", "replace").encode("utf-16-be", "surrogatepass")) // 2
    shifted: int = prefix_hash * pow(31, length, 1 << 32)
    return (shifted + java_hash(text)) & MASK


def java_string_hash(text: str) -> int:
    """Return String.hashCode as Java's signed int."""
    return signed(java_hash(text.encode()) if text.isascii() else _java_hash_of_units(text))


def signed(value: int) -> int:
    """Return the unsigned 32-bit `value` as Java's int."""
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=8192)
def tag_code(tag: str) -> int:
    """Return the tagsCode of a tag given as text; 0 for an empty one."""
    return java_string_hash(tag)


@lru_cache(maxsize=4096)
def tags_code(tags: bytes) -> int:
    """Return the consume queue's tagsCode: the hash of the TAGS string, sign extended; 0 without tags."""
    return signed(java_hash(tags)) if tags else 0
