"""What a producer names to recall a message that waits for its time (`RecallMessageHandle.java`).

URL-safe Base64 of `v1 <topic> <broker name> <time in ms> <unique key>`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

VERSION = "v1"
PARTS = 5
INVALID = "recall handle is invalid"


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """`timestamp_text` is the broker's: any text in a handle that a client made up."""

    topic: str
    broker_name: str
    timestamp_text: str
    unique_key: str

    def encode(self) -> str:
        parts = (VERSION, self.topic, self.broker_name, self.timestamp_text, self.unique_key)
        return base64.urlsafe_b64encode(" ".join(parts).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Return the parts of a handle. Raises ValueError for what is none."""
    try:
        padded = text + "=" * (-len(text) % 4)  # Java reads both
        parts = base64.b64decode(padded.encode(), altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, UnicodeError) as error:
        raise ValueError(INVALID) from error
    if parts[0] != VERSION or len(parts) < PARTS:
        raise ValueError(INVALID)
    return RecallHandle(*parts[1:PARTS])
