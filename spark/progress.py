"""How long each queue stood still and which of the twelve statuses it had, for every round of a window at once.

The same rules as `spark.lag.status.judge`, which looks at one queue now; here they run over whole matrices, and with
what history holds: it knows no connections, so nobody is OFFLINE here, a queue without progress is STALLED.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spark.lag.forecast import TREND_CHANGE
from spark.lag.snapshot import BoolArray, Int64Array
from spark.lag.status import (
    QUIET_MS,
    SEVERITY,
    TIME_LAG_ALLOWED_MS,
    WINDOW_MS,
    WORST_FIRST,
    LagStatus,
)
from spark.rounds import Matrix

CODES = {status: SEVERITY[status] for status in LagStatus}
STATUS_OF_CODE = {code: status for status, code in CODES.items()}
CODE_MAX = len(WORST_FIRST)
CodeArray = npt.NDArray[np.int8]


def standing_ms(matrix: Matrix) -> Int64Array:
    """How long the committed offset has stood still while messages waited, at each round; 0 where nothing waits."""
    still = np.zeros(matrix.lag.shape, dtype=np.int64)
    rows = np.flatnonzero(matrix.lag.any(axis=1))  # in most queues nothing ever waits
    lag, present, gap_ms = matrix.lag[rows], matrix.present[rows], matrix.gap_ms[rows, 0]
    moved = (matrix.consumed[rows] > 0) | (matrix.skipped[rows] > 0) | matrix.rewound[rows] | (lag == 0)
    start = np.where(gap_ms > 0, matrix.times[:1] - gap_ms, matrix.times[:1])
    moved_at = np.where(moved & present, matrix.times[None, :], start[:, None])
    stood = matrix.times[None, :] - np.maximum.accumulate(moved_at, axis=1)
    still[rows] = np.where(present & (lag > 0), stood, 0)
    return still


def statuses(matrix: Matrix, still_ms: Int64Array) -> CodeArray:
    """The severity code of every queue at every round; UNKNOWN where it was not read."""
    codes = np.full(matrix.lag.shape, CODES[LagStatus.OK], dtype=np.int8)
    waiting = matrix.lag > 0
    late = waiting & (matrix.time_lag_ms > TIME_LAG_ALLOWED_MS)
    rows = np.flatnonzero(late.any(axis=1))
    if len(rows):
        codes[rows] = np.where(late[rows], _trend(matrix.lag[rows], matrix.times), codes[rows])
    rewound = _not_back(matrix)
    if rewound is not None:
        codes[rewound & waiting] = CODES[LagStatus.REWOUND]
    if matrix.skipped.any():
        codes[(matrix.skipped > 0) & ~late] = CODES[LagStatus.SKIPPED]
    still = still_ms > QUIET_MS
    if still.any():
        rows = np.flatnonzero(still.any(axis=1))
        advanced = np.maximum.accumulate(matrix.consumed[rows] > 0, axis=1)
        standing = np.where(advanced, CODES[LagStatus.STOPPED], CODES[LagStatus.STALLED])
        codes[rows] = np.where(still[rows], standing, codes[rows])
    codes[matrix.committed < matrix.min_offset] = CODES[LagStatus.LOST]
    codes[matrix.present & ~matrix.valid] = CODES[LagStatus.INVALID]
    codes[~matrix.present] = CODES[LagStatus.UNKNOWN]
    return codes


def _trend(lag: Int64Array, times: Int64Array) -> CodeArray:
    """CATCHING_UP where the lag is well below that of ten minutes ago or of its beginning, else FALLING_BEHIND."""
    width = len(times)
    earlier = np.searchsorted(times, times - WINDOW_MS)
    none_waited = np.where(lag == 0, np.arange(width), -1)
    begun = np.maximum.accumulate(none_waited, axis=1) + 1
    reference_at = np.minimum(np.maximum(begun, earlier[None, :]), width - 1)
    reference = np.take_along_axis(lag, reference_at, axis=1)
    shrinking = lag < reference * (1 - TREND_CHANGE)
    young = times[None, :] - times[reference_at] < QUIET_MS
    codes = np.where(shrinking, CODES[LagStatus.CATCHING_UP], CODES[LagStatus.FALLING_BEHIND])
    return np.where(young, CODES[LagStatus.OK], codes).astype(np.int8)


def _not_back(matrix: Matrix) -> BoolArray | None:
    """Where a committed offset went back in the window and has not reached its old place again; None: nowhere."""
    if not matrix.rewound.any():
        return None
    behind = np.zeros(matrix.lag.shape, dtype=np.bool_)
    for row in np.flatnonzero(matrix.rewound.any(axis=1)).tolist():
        committed = np.where(matrix.present[row], matrix.committed[row], 0)
        highest = np.maximum.accumulate(committed)
        since = np.maximum.accumulate(matrix.rewound[row])
        behind[row] = since & (committed < highest)
    return behind


def status_ms(codes: CodeArray, seen: BoolArray, gap_ms: Int64Array, limit_ms: int) -> Int64Array:
    """Milliseconds of each row in each code: rows x (CODE_MAX + 1). An interval longer than the limit is unknown."""
    rows = len(codes)
    known = np.where(gap_ms <= limit_ms, gap_ms, 0)
    cells = np.arange(rows)[:, None] * (CODE_MAX + 1) + codes
    weights = np.where(seen, known, 0)
    total = np.bincount(cells.reshape(-1), weights.reshape(-1), minlength=rows * (CODE_MAX + 1))
    return total.astype(np.int64).reshape(rows, CODE_MAX + 1)
