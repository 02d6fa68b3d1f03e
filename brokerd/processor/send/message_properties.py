"""What the broker reads and adds in a message's property string on its way into the store."""

from __future__ import annotations

import ipaddress
import itertools
import os

from brokerd.remoting.message.ids import create_unique_key

# Names that take a message off the straight way: delays, transactions, arbitrary times, pop handles, light queues.
SPECIAL = frozenset(
    {
        "DELAY",
        "TRAN_MSG",
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "POP_CK",
        "INNER_MULTI_DISPATCH",
    }
)
has_no_special = SPECIAL.isdisjoint  # bound once: it is called per message

_counter = itertools.count()


def make_unique_key(host: str, now_ms: int) -> str:
    """Return a UNIQ_KEY for a message whose producer gave none."""
    packed = ipaddress.ip_address(host).packed
    return create_unique_key(packed, os.getpid(), next(_counter) & 0xFFFF, now_ms)
