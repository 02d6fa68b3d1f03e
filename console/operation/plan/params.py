"""Parameters of plans: which ones a kind takes, and those of a request before the kind has read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from console.operation.errors import PlanRejected
from console.text import Names, Text
from console.text.stored import Stored

NAME_LENGTH_MAX = 255
# Parameter of every kind: brokers that do not answer and are left out, by name.
ACCEPT_WITHOUT = "accept_without"
# Brokers; as many as a cluster has at most.
BROKERS_MAX = ACCEPTED_MAX = 200
RawParams: TypeAlias = Mapping[str, Any]


class Params(Stored, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of a plan, read; as its column keeps them."""

    # Brokers that do not answer and are left out, by name.
    accept_without: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that a request may name: checked by this, and described by it in the API.

    ``type``: str, bool, int, tuple (of names) or dict (name → text). A text that is not required may be empty.
    """

    name: str
    type: type = str
    # Of a number; ``most`` else of characters, or of names.
    least: int = 0
    most: int = NAME_LENGTH_MAX
    # Value → words, or only values.
    choices: Mapping[Any, str] | Sequence[str] = ()
    required: bool = False
    help_text: str = ""

    def read(self, value: Any) -> Any:
        """Return a value that this parameter may have, names once each. Raises PlanRejected(name)."""
        problem = self._problem(value)
        if problem:
            raise PlanRejected(problem, field=self.name)
        return tuple(dict.fromkeys(value)) if self.type is tuple else value

    def _problem(self, value: Any) -> Text:
        if self.choices:
            of = self.choices
            names = Names(f"{one} ({of[one]})" if isinstance(of, Mapping) else one for one in of)
            is_one = not isinstance(value, bool) and value in tuple(of)
            return Text() if is_one else Text("%(key)s must be one of %(names)s.", key=self.name, names=names)
        if self.type is int:
            if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
                return Text()
            return Text(
                "%(key)s must be a number from %(lowest)s to %(highest)s.",
                key=self.name,
                lowest=self.least,
                highest=self.most,
            )
        is_good, words = {
            bool: (isinstance(value, bool), Text("%(key)s must be true or false.", key=self.name)),
            tuple: (_are_names(value), Text("%(field)s must be a list of names.", field=self.name)),
            dict: (
                isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values()),
                Text("%(key)s must be a text for each name.", key=self.name),
            ),
            str: (
                isinstance(value, str) and (value != "" or not self.required),
                Text("%(key)s must be a text.", key=self.name),
            ),
        }[self.type]
        return Text() if is_good else words


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) and name for name in value)


@dataclasses.dataclass(frozen=True, slots=True)
class Accepted:
    """What requests of a kind may name; in the API's description it has a name and a sentence."""

    name: str
    words: str
    parameters: tuple[Parameter, ...]
    # What a plan is about, where it is not only the name of an object.
    subject: str = ""


ACCEPTING = Parameter(
    ACCEPT_WITHOUT,
    tuple,
    most=ACCEPTED_MAX,
    help_text="brokers that do not answer and are left out; without it such a plan is blocked",
)
ON_BROKERS = Parameter("brokers", tuple, most=BROKERS_MAX, help_text="only on these; on all without it")
NOTHING = Accepted("Nothing", "No parameters except the brokers that may be left out.", (ACCEPTING,))


class Given:
    """Parameters as they came: `PlanKind.read_params` checks them and makes its own value of them."""

    def __init__(self, fields: RawParams) -> None:
        self._fields = fields

    def get(self, field: str, default: Any = None) -> Any:
        """Return a parameter unchecked, the default where it is not given."""
        return self._fields.get(field, default)

    def read(self, accepted: Accepted) -> RawParams:
        """Return the parameters that are given, each checked. Raises PlanRejected(field)."""
        self.refuse_unknown([one.name for one in accepted.parameters])
        given = [one for one in accepted.parameters if one.required or self.get(one.name) is not None]
        return {one.name: one.read(self.get(one.name)) for one in given}

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise PlanRejected for an unknown parameter: a misspelt one would be ignored silently."""
        for field in sorted(set(self._fields) - set(known)):
            raise PlanRejected(
                Text(
                    "There is no parameter %(field)s. Parameters: %(known)s.",
                    field=repr(field),
                    known=Names(sorted(known)),
                ),
                field,
            )

    def accepted_without(self) -> tuple[str, ...]:
        """Return the silent brokers that the plan may leave out. Raises PlanRejected("accept_without")."""
        return tuple(ACCEPTING.read(self.get(ACCEPT_WITHOUT) or ())[:ACCEPTED_MAX])
