"""Addresses inside records and message ids: 4 or 16 bytes of IP, 4 bytes of port."""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache

PORT = struct.Struct(">i")
IPV4_BYTES, IPV6_BYTES = 4, 16


@lru_cache(maxsize=8192)
def encode_host(host: tuple[str, int]) -> bytes:
    """Pack IP and port: 8 bytes for IPv4, 20 for IPv6. Raise ValueError for no IP address."""
    return ipaddress.ip_address(host[0]).packed + PORT.pack(host[1])


@lru_cache(maxsize=1024)
def address_text(address: bytes) -> str:
    """Return the text of a packed IP address."""
    return str(ipaddress.ip_address(address))
