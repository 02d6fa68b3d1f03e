"""The plain twin of `spark.lag.round.round_arrays.losses_ms`: when retention reaches one consumer, as lag.md has it."""

from dataclasses import dataclass

from spark.lag.forecast import DRAIN_MS_MAX, LOSS_HORIZON_MS_MIN


@dataclass(frozen=True, slots=True)
class TimeToLoss:
    """When retention reaches the consumer: `ms`, or `never`, or neither when unknown. `lower_bound`: not before."""

    ms: int | None
    never: bool
    lower_bound: bool = False


def time_to_loss(
    ahead_ms: int | None,
    speed: float | None,
    *,
    kept_ms: int | None = None,
    edge_speed: float = 1.0,
    lower_bound: bool = False,
) -> TimeToLoss:
    """Return (s(c) - s(n)) / (w - v) (lag.md 1.2, 16).

    Beyond `kept_ms`, for how long messages are kept, it is never: not in sight. While the speed is
    not known, the group is taken to stand still: not before that.

    `ahead_ms` is how much younger the first unread message is than the oldest stored one, `speed` v the catch-up
    speed, `edge_speed` w how fast the oldest stored message gets younger. Retention by age moves the edge one second
    a second once the first file is old enough; before that it stands still and the answer is a lower bound.
    """
    if ahead_ms is None:
        return TimeToLoss(None, False)
    if speed is None:
        return TimeToLoss(round(max(0, ahead_ms) / edge_speed), False, True)
    if speed >= edge_speed:
        return TimeToLoss(None, True)
    ms = round(max(0, ahead_ms) / (edge_speed - speed))
    if ms > (DRAIN_MS_MAX if kept_ms is None else max(kept_ms, LOSS_HORIZON_MS_MIN)):
        return TimeToLoss(None, True)
    return TimeToLoss(ms, False, lower_bound)
