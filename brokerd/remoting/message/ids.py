"""Message ids: by the place in the commit log, and the producer's own unique key."""

from __future__ import annotations

import ipaddress
import struct
import zlib
from datetime import UTC, datetime
from functools import lru_cache

from brokerd.remoting.message.hosts import PORT, encode_host

OFFSET = struct.Struct(">q")


def create_offset_message_id(host: str, port: int, commit_log_offset: int) -> str:
    """Address, port and commit-log offset as upper-case hex: 32 characters, 56 with IPv6."""
    return (encode_host((host, port)) + OFFSET.pack(commit_log_offset)).hex().upper()


def decode_offset_message_id(message_id: str) -> tuple[str, int, int]:
    """(host, port, commit-log offset). Raises ValueError for another kind of id."""
    if len(message_id) not in (32, 56):
        raise ValueError(f"an offset message id has 32 or 56 characters, not {len(message_id)}")
    data = bytes.fromhex(message_id)
    port, offset = PORT.unpack(data[-12:-8])[0], OFFSET.unpack(data[-8:])[0]
    if not 0 < port < 65_536 or offset < 0:
        raise ValueError(f"{message_id} names port {port} and offset {offset}: not an offset message id")
    return str(ipaddress.ip_address(data[:-12])), port, offset


@lru_cache(maxsize=4)
def _month_start_ms(day: int) -> int:
    """Return the first moment (UTC) of the month that the day since 1970 belongs to."""
    return int(datetime.fromtimestamp(day * 86_400, UTC).replace(day=1).timestamp()) * 1000


def create_unique_key(ip: bytes, pid: int, counter: int, now_ms: int) -> str:
    """A producer's message id: address, process, hash, time in the month, counter as hex (MessageClientIDSetter).

    `ip` has 4 or 16 bytes; of `pid` and `counter` 16 bits count. Tools read the time of sending from the id: the
    milliseconds count from the start of the month, which here is UTC's.
    """
    in_month_ms = now_ms - _month_start_ms(now_ms // 86_400_000)
    return f"{_process_part(ip, pid)}{in_month_ms:08X}{counter & 0xFFFF:04X}"


@lru_cache(maxsize=4)
def _process_part(ip: bytes, pid: int) -> str:
    """Address, process and hash: the same in all keys of a producer."""
    return (ip + struct.pack(">HI", pid & 0xFFFF, zlib.crc32(ip))).hex().upper()
