"""What every kind of plan asks of its parameters before it reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from console.operation.errors import PlanRejected


def refuse_unknown(params: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise PlanRejected for a parameter that the kind does not know: a misspelt one would be left out silently."""
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise PlanRejected(f"There is no parameter {unknown[0]!r}; there is {', '.join(known)}.", unknown[0])


def broker_names(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the brokers that are named, none for all of them. Raises PlanRejected("brokers")."""
    brokers = params.get("brokers") or ()
    if isinstance(brokers, str) or not all(isinstance(name, str) for name in brokers):
        raise PlanRejected("Brokers is a list of broker names.", "brokers")
    return tuple(brokers)
