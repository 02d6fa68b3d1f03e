"""Where a page of messages begins or ends: one cut per queue, from which reading goes up or down. Pure.

A cut at p lies between the messages p-1 and p of a queue. Messages on one side were on earlier pages, those on the
other side come next, so pages neither skip nor repeat, whatever is written or expires meanwhile. A queue without a
cut was not part of the search when it began.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import zlib
from collections.abc import Mapping

from console.brokers.mqadmin import MessageQueue
from console.text import Text

TEXT_LENGTH_MAX = 20_000  # 1,000 queues take about 8 kB
JSON_BYTES_MAX = 512 * 1024


class BadCursor(ValueError):
    """The cursor is invalid, or belongs to another search."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cursor:
    """A cut through every queue.

    ``up``: towards newer messages. ``cuts``: (broker name, queue id) → p.
    """

    fingerprint: str
    up: bool
    cuts: Mapping[tuple[str, int], int]

    def cut(self, queue: MessageQueue) -> int | None:
        """Return the cut through one queue, None if it has none."""
        return self.cuts.get((queue.broker_name, queue.queue_id))

    def to_text(self) -> str:
        """Encode the cursor for addresses."""
        brokers: dict[str, list[int]] = {}
        for (name, queue_id), cut in sorted(self.cuts.items()):
            brokers.setdefault(name, []).extend((queue_id, cut))
        text = json.dumps({"s": self.fingerprint, "u": int(self.up), "c": brokers}, separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str, fingerprint: str) -> Cursor:
        """Decode the cursor of the search with this fingerprint; raise BadCursor for any other text."""
        if len(text) > TEXT_LENGTH_MAX:
            raise BadCursor(
                Text(
                    "This is not a cursor of a message search: it is too long. Search again without a cursor."
                )
            )
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            value = json.loads(zlib.decompressobj().decompress(packed, JSON_BYTES_MAX))
            cuts = {
                (str(name), int(queue_id)): int(cut)
                for name, flat in value["c"].items()
                for queue_id, cut in zip(flat[::2], flat[1::2], strict=True)
            }
            found = cls(str(value["s"]), bool(value["u"]), cuts)
        except (binascii.Error, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadCursor(
                Text(
                    "This is not a cursor of a message search (%(why)s). Search again without a cursor.",
                    why=str(error),
                )
            ) from error
        if found.fingerprint != fingerprint:
            raise BadCursor(Text("This cursor belongs to another search. Search again without a cursor."))
        return found
