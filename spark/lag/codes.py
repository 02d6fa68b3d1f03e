"""Statuses with their numbers in files, flags of samples, and the order of severity.

Files hold the numbers: a number is never reused.
"""

from enum import IntFlag, StrEnum

import numpy as np
import numpy.typing as npt

ByteArray = npt.NDArray[np.uint8]


class LagStatus(StrEnum):
    """The codes in rows, REST and CSV. New ones go to the end: files hold the position here, from 1."""

    OK = "OK"
    CATCHING_UP = "CATCHING_UP"
    FALLING_BEHIND = "FALLING_BEHIND"
    STALLED = "STALLED"
    STOPPED = "STOPPED"
    REWOUND = "REWOUND"
    SKIPPED = "SKIPPED"
    LOST = "LOST"
    OFFLINE = "OFFLINE"
    NEVER_COMMITTED = "NEVER_COMMITTED"
    INVALID = "INVALID"
    UNKNOWN = "UNKNOWN"


class SampleFlag(IntFlag):
    """How to read the figures of a sample."""

    TIME_LAG_BOUND = 1  # the time lag is at least what is kept
    LAG_BOUND = 2  # more messages may wait than the offsets show
    NOT_COUNT = 4  # offsets of this topic do not count messages
    PAUSED = 8
    RESET_PENDING = 16
    MOVED = 32  # the committed offset was set, not consumed, since the last known sample
    # Not comparable with the last known sample: from another machine (a slave in the place of its master, or the
    # master again), or from a slave that has not yet what was known before. Neither consumed nor a rewind.
    SWITCHED = 64


ABSENT = 0  # the series does not exist from here on
CODE_OF = {status: code for code, status in enumerate(LagStatus, 1)}
STATUS_OF = {code: status for status, code in CODE_OF.items()}
OK_CODE, UNKNOWN_CODE = CODE_OF[LagStatus.OK], CODE_OF[LagStatus.UNKNOWN]
NEVER_COMMITTED_CODE = CODE_OF[LagStatus.NEVER_COMMITTED]
NO_FLAGS = 0

# Worst first: the status of a row of several queues. A known standing problem ranks above UNKNOWN, and UNKNOWN above
# what is fine or temporary.
WORST_FIRST = (
    LagStatus.LOST,
    LagStatus.STALLED,
    LagStatus.STOPPED,
    LagStatus.OFFLINE,
    LagStatus.FALLING_BEHIND,
    LagStatus.INVALID,
    LagStatus.UNKNOWN,
    LagStatus.REWOUND,
    LagStatus.SKIPPED,
    LagStatus.CATCHING_UP,
    LagStatus.NEVER_COMMITTED,
    LagStatus.OK,
)
SEVERITY = {status: len(WORST_FIRST) - rank for rank, status in enumerate(WORST_FIRST)}
