"""Checks that every kind of plan makes of its parameters before reading them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from console.operation.errors import PlanRejected
from console.text import Text

# Parameter of every kind: brokers that do not answer and are left out, by name.
ACCEPT_WITHOUT = "accept_without"
# Brokers; as many as a cluster has at most.
ACCEPTED_MAX = 200


def refuse_unknown(params: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise PlanRejected for an unknown parameter: a misspelt one would be ignored silently."""
    unknown = sorted(set(params) - set(known) - {ACCEPT_WITHOUT})
    if unknown:
        raise PlanRejected(
            Text(
                "There is no parameter %(field)s; there is %(known)s.",
                field=repr(unknown[0]),
                known=", ".join(known),
            ),
            unknown[0],
        )


def broker_names(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the named brokers, none for all of them. Raises PlanRejected("brokers")."""
    return _names(params, "brokers")


def accepted_without(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the silent brokers that the plan may leave out. Raises PlanRejected("accept_without")."""
    return _names(params, ACCEPT_WITHOUT)[:ACCEPTED_MAX]


def _names(params: Mapping[str, Any], field: str) -> tuple[str, ...]:
    names = params.get(field) or ()
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise PlanRejected(Text("%(field)s must be a list of broker names.", field=field.capitalize()), field)
    return tuple(names)
