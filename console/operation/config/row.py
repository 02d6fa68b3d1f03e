"""A topic, group or broker on one broker: its configuration before and after a plan, under the broker's own keys."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from console.operation.plan.coverage import LEFT_OUT, Coverage
from console.operation.plan.kinds import PlanWarning
from console.text import Text
from console.text.stored import Stored

TOPIC, GROUP = "topic", "group"
# An object of a plan, by what it is.
OBJECT_WORDS: Mapping[str, Text] = {
    TOPIC: Text("topic"),
    GROUP: Text("group"),
    # Of access control (`console.broker.acl`).
    "account": Text("account"),
    "user": Text("user"),
    "white addresses": Text("white addresses"),
}
# A TopicConfig or SubscriptionGroupConfig under its wire names; releases have keys of their own.
Config = dict[str, Any]
PERM_READ_WRITE = 6  # PermName: read 4, write 2


class Action(enum.StrEnum):
    """What a plan does on one broker; the values are stored in diffs."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    STAY = "stay"
    LEFT_OUT = LEFT_OUT


# What a job did on a broker, in a word; a change lists its keys instead.
DONE: Mapping[str, Text] = {Action.CREATE: Text("created"), Action.DELETE: Text("deleted")}


def row_words(action: str, what: str, name: str) -> Text | str:
    """Return what a plan does on one broker; a change says its object alone, its keys follow."""
    words = OBJECT_WORDS.get(what, what)
    if action == Action.CREATE:
        return Text("%(what)s %(name)s is created", what=words, name=name)
    if action == Action.DELETE:
        return Text("%(what)s %(name)s is deleted", what=words, name=name)
    if action == Action.STAY:
        return Text("%(what)s %(name)s stays as it is", what=words, name=name)
    if action == Action.LEFT_OUT:
        return Text("not covered")
    # A broker's own configuration stands below the name of the broker.
    return (
        Text("configuration")
        if what not in OBJECT_WORDS
        else Text("%(what)s %(name)s", what=words, name=name)
    )


# What stands for a secret in a row, by its key: no row contains one.
SECRET_KEYS = frozenset({"secretKey", "password"})
SECRET_WORDS: Mapping[str, Text] = {"stored": Text("stored secret"), "new": Text("new secret")}


class KeyChange(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """A key that differs; None: the broker does not have it."""

    key: str
    before: Any
    after: Any


class DiffRow(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """A row of a diff: what happens where. ``note``: what to know about this row of the plan."""

    what: str  # TOPIC | GROUP | …
    name: str
    broker_name: str
    note: Text = Text()
    action: str = msgspec.field(name="deed")
    changes: tuple[KeyChange, ...] = ()


class ConfigRow(DiffRow, frozen=True, kw_only=True, omit_defaults=False):
    """A row of a diff of configurations; None: not there."""

    addr: str
    before: Config | None
    after: Config | None
    action: Action = msgspec.field(name="deed")

    @classmethod
    def of(
        cls,
        what: str,
        name: str,
        broker_name: str,
        addr: str,
        before: Config | None,
        after: Config | None,
        note: Text = Text(),
    ) -> ConfigRow:
        """Return the row of an object on a broker that answers."""
        action = Action.STAY if before == after else Action.CHANGE
        if action is Action.CHANGE and (before is None or after is None):
            action = Action.CREATE if before is None else Action.DELETE
        return cls(
            what=what,
            name=name,
            broker_name=broker_name,
            addr=addr,
            before=before,
            after=after,
            note=note,
            action=action,
            changes=_changes(before or {}, after or {}),
        )

    @property
    def is_covered(self) -> bool:
        return self.action is not Action.LEFT_OUT


def _changes(before: Config, after: Config) -> tuple[KeyChange, ...]:
    """Return what differs; every key if the object is created or deleted."""
    keys = [*before, *(key for key in after if key not in before)]
    return tuple(
        KeyChange(key=key, before=before.get(key), after=after.get(key))
        for key in keys
        if before.get(key) != after.get(key)
    )


def left_out_rows(cover: Coverage, what: str, name: str) -> list[ConfigRow]:
    """Return rows for the brokers the plan leaves out: their state is unknown and stays."""
    return [
        ConfigRow(
            what=what,
            name=name,
            broker_name=broker,
            addr="",
            before=None,
            after=None,
            note=each.words,
            action=Action.LEFT_OUT,
        )
        for broker, each in sorted(cover.absent.items())
    ]


class ImpactRow(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """Who feels a change, and how much: a figure with its source and age; value None is unknown."""

    name: Text
    value: int | None
    words: Text
    source: Text
    at_ms: int | None
    is_lower_bound: bool = False
    # Instead of the value; None: never seen.
    moment_ms: int | msgspec.UnsetType | None = msgspec.UNSET


# --- What a configuration allows ----------------------------------------------------------------------------

SWITCHES: Mapping[str, tuple[str, Any]] = {TOPIC: ("perm", 0), GROUP: ("consumeEnable", False)}


def is_denied(what: str, config: Config) -> bool:
    """Return whether no client may use it: a topic without read and write, a group that may not consume."""
    if what == TOPIC:
        return not int(config.get("perm", PERM_READ_WRITE)) & PERM_READ_WRITE
    return not config.get("consumeEnable", True)


def denied(what: str, config: Config) -> Config:
    """Return the configuration that denies all use: no read and write, or no consumption."""
    key, closed = SWITCHES[what]
    return {**config, key: closed}


def reopened(what: str, config: Config, former: Config) -> Config:
    """Return a closed object as open as it was; one that was opened since stays as it is."""
    key, _ = SWITCHES[what]
    return {**config, key: former[key]} if is_denied(what, config) else config


# --- Words --------------------------------------------------------------------------------------------------


def difference(expected: Config | None, found: Config | None) -> Text:
    """Return how a configuration differs from the expected one: ``perm is 4, not 6``."""
    if found is None:
        return Text("it does not exist there")
    if expected is None:
        return Text("it exists there")
    return Text.of_list(
        [
            Text(
                "%(key)s is %(value)s, not %(expected)s",
                key=key,
                value=shown(found.get(key)),
                expected=shown(expected.get(key)),
            )
            for key in sorted({*expected, *found})
            if expected.get(key) != found.get(key)
        ]
    )


def overwritten_warning(rows: Iterable[ConfigRow]) -> list[PlanWarning]:
    """Warn where the undo also reverts what another client changed since."""
    notes = [Text("%(broker)s: %(note)s.", broker=row.broker_name, note=row.note) for row in rows if row.note]
    if not notes:
        return []
    return [PlanWarning("warn", Text("Later changes are undone too"), Text.of_parts(notes))]


def nothing_changes(rows: Sequence[ConfigRow]) -> Text:
    """Return why a plan without changes cannot be applied; empty if it has changes."""
    if any(row.before != row.after for row in rows):
        return Text()
    return Text("Nothing would change: the brokers already report these values.")


def shown(value: Any) -> str:
    """Format a configuration value for people."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "none"
    return "none" if value is None else str(value)


def change_summary(name: str, rows: Sequence[ConfigRow]) -> Text:
    """Describe what changes where; brokers with the same change are named together."""
    by_change: dict[str, list[str]] = {}
    for row in rows:
        if row.changes:
            words = ", ".join(f"{one.key} {shown(one.before)} → {shown(one.after)}" for one in row.changes)
            by_change.setdefault(words, []).append(row.broker_name)
    if not by_change:
        return Text("Nothing would change: %(name)s already has these settings on every broker.", name=name)
    changes = [
        Text("%(change)s on %(brokers)s", change=words, brokers=Text.of_names(names))
        for words, names in by_change.items()
    ]
    return Text("Change %(name)s: %(changes)s.", name=name, changes=Text.of_parts(changes))


def terminal_rows(diff: Iterable[DiffRow]) -> Iterable[str]:
    """Yield the rows of such a diff with the keys that change, as the commands print them."""
    for row in diff:
        yield f"{row.broker_name}  {row.action} {row.what} {row.name}  {row.note}".rstrip()
        for one in row.changes:
            yield f"  {one.key:<30} {_in_terminal(one.before):>12} → {_in_terminal(one.after)}"


def _in_terminal(value: Any) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
