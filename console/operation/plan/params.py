"""Parameters of a form, a request body or a command line, before a kind of plan has read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from console.operation.errors import PlanRejected
from console.text import Text
from console.text.stored import Stored

# Parameter of every kind: brokers that do not answer and are left out, by name.
ACCEPT_WITHOUT = "accept_without"
# Brokers; as many as a cluster has at most.
ACCEPTED_MAX = 200
RawParams: TypeAlias = Mapping[str, Any]


class Params(Stored, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of a plan, read; as its column keeps them."""

    # Brokers that do not answer and are left out, by name.
    accept_without: tuple[str, ...] = ()


class Given:
    """Parameters as they came: `PlanKind.read_params` checks them and makes its own value of them."""

    def __init__(self, fields: RawParams) -> None:
        self._fields = fields

    def get(self, field: str, default: Any = None) -> Any:
        """Return a parameter unchecked, the default where it is not given."""
        return self._fields.get(field, default)

    def unknown(self, known: Collection[str]) -> list[str]:
        """Return the parameters that are none of these, by name."""
        return sorted(set(self._fields) - set(known))

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise PlanRejected for an unknown parameter: a misspelt one would be ignored silently."""
        unknown = self.unknown({*known, ACCEPT_WITHOUT})
        if unknown:
            raise PlanRejected(
                Text(
                    "There is no parameter %(field)s; there is %(known)s.",
                    field=repr(unknown[0]),
                    known=", ".join(known),
                ),
                unknown[0],
            )

    def broker_names(self) -> tuple[str, ...]:
        """Return the named brokers, none for all of them. Raises PlanRejected("brokers")."""
        return self._names("brokers")

    def accepted_without(self) -> tuple[str, ...]:
        """Return the silent brokers that the plan may leave out. Raises PlanRejected("accept_without")."""
        return self._names(ACCEPT_WITHOUT)[:ACCEPTED_MAX]

    def _names(self, field: str) -> tuple[str, ...]:
        names = self.get(field) or ()
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise PlanRejected(
                Text("%(field)s must be a list of broker names.", field=field.capitalize()), field
            )
        return tuple(names)
