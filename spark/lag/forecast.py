"""How long until a backlog is read? From the rates of the last minutes, honest about "never"."""

from dataclasses import dataclass

DRAIN_MS_MAX = 365 * 24 * 3_600_000  # beyond a year "never" is the truer word


@dataclass(frozen=True, slots=True)
class Drain:
    """Time until the backlog is gone: `ms`, or `never` at the present rates, or neither when rates are
    unknown.
    """

    ms: int | None
    never: bool


def drain(lag: int | None, produce_rate: float | None, consume_rate: float | None) -> Drain:
    """Return L / (mu - lambda) for a lag in messages and rates in messages per second (lag.md 1.2, 14)."""
    if lag is None:
        return Drain(None, False)
    if lag == 0:
        return Drain(0, False)
    if produce_rate is None or consume_rate is None:
        return Drain(None, False)
    if consume_rate <= produce_rate:
        return Drain(None, True)
    ms = lag / (consume_rate - produce_rate) * 1000
    return Drain(None, True) if ms > DRAIN_MS_MAX else Drain(round(ms), False)
