"""Bodies as dataclasses: what `from_body` and `to_body` have in common.

A field's wire name is its own in camel case unless its metadata names another (`wire("droped")`). Reading is lenient
as fastjson is: unknown members are ignored, absent and null ones take the default, numbers may be text. Writing leaves
None out. Raises BodyError when a member does not fit its type.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, Self, TypeVar

from brokerd.remoting.body import fastjson
from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.queue import MessageQueue

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
Reader = Callable[[Any], Any]
T = TypeVar("T")


def wire(name: str, default: Any = dataclasses.MISSING, default_factory: Any = dataclasses.MISSING) -> Any:
    """Return a dataclass field whose wire name is not its own in camel case."""
    metadata = {"wire": name}
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def camel(name: str) -> str:
    """`consumer_group` as `consumerGroup`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


class JsonBody:
    """Base of the body dataclasses."""

    @classmethod
    def from_body(cls, body: bytes | memoryview) -> Self:
        """Raise BodyError."""
        return cls.from_value(fastjson.loads(body))

    @classmethod
    def from_request(cls, body: bytes | memoryview) -> Self:
        """Return what a client sent to the broker, within its limits. Raises BodyError."""
        return cls.from_value(fastjson.loads_request(body))

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Return the body out of parsed JSON. Raises BodyError."""
        if not isinstance(value, dict):
            raise BodyError(f"{cls.__name__} is not a JSON object but {type(value).__name__}")
        found = {}
        for attribute, wire_name, read in _fields(cls):
            member = value.get(wire_name)
            if member is not None:
                try:
                    found[attribute] = read(member)
                except (TypeError, ValueError, OverflowError, AttributeError) as error:
                    raise BodyError(f"{cls.__name__}.{wire_name}: {error}") from None
        try:
            return cls(**found)
        except TypeError as error:
            raise BodyError(f"{cls.__name__}: {error}") from None

    def to_body(self) -> bytes:
        """Return the body as Java writes it."""
        return fastjson.dumps(self.to_value())

    def to_value(self) -> dict[str, Any]:
        """Return plain dicts, lists and scalars under their wire names."""
        return {
            wire_name: plain(value)
            for attribute, wire_name, _ in _fields(type(self))
            if (value := getattr(self, attribute)) is not None
        }


def plain(value: Any) -> Any:
    """Return a value of a body without dataclasses; queues stay, as keys and as values."""
    if isinstance(value, JsonBody):
        return value.to_value()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


_known: dict[Any, list[Any]] = {}  # filled on first use of a class


def _fields(cls: Any) -> list[tuple[str, str, Reader]]:
    """(attribute, wire name, how to read it) of a body's fields."""
    if cls not in _known:
        hints = typing.get_type_hints(cls)
        _known[cls] = [
            (each.name, each.metadata.get("wire", camel(each.name)), _reader(hints[each.name]))
            for each in dataclasses.fields(cls)
        ]
    return _known[cls]


def _reader(hint: Any) -> Reader:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _reader(next(a for a in arguments if a is not type(None)))
    if origin is list:
        return _list_reader(_reader(arguments[0]))
    if origin is dict:
        return _dict_reader(_reader(arguments[0]), _reader(arguments[1]))
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint is MessageQueue:
        return queue_from
    if isinstance(hint, type) and issubclass(hint, JsonBody):
        return hint.from_value
    return lambda value: value


def _list_reader(read: Reader) -> Reader:
    def read_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"is not a list but {type(value).__name__}")
        return [read(item) for item in value if item is not None]

    return read_list


def _dict_reader(read_key: Reader, read_value: Reader) -> Reader:
    def read_dict(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"is not an object but {type(value).__name__}")
        return {read_key(key): read_value(item) for key, item in value.items() if item is not None}

    return read_dict


def queue_from(value: Any) -> MessageQueue:
    """Return a queue out of parsed JSON. Raises ValueError."""
    if isinstance(value, MessageQueue):
        return value
    if isinstance(value, dict) and {"topic", "brokerName", "queueId"} <= value.keys():
        return MessageQueue(_text(value["topic"]), _text(value["brokerName"]), _number(value["queueId"]))
    raise ValueError(f"{value!r} is not a queue")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise ValueError(f"is not text but {type(value).__name__}")


def _number(value: Any) -> int:
    """Return a long of Java: what does not fit is refused here, not when it is packed into a file later."""
    if not isinstance(value, int | str | float):
        raise ValueError(f"is not a number but {type(value).__name__}")
    try:
        number = int(value)
    except OverflowError:
        raise ValueError("is not a number but infinite") from None
    if not LONG_MIN <= number <= LONG_MAX:
        raise ValueError("does not fit into 64 bits")
    return number


def _decimal(value: Any) -> float:
    if isinstance(value, int | float | str):
        return float(value)
    raise ValueError(f"is not a number but {type(value).__name__}")


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    return bool(value)


_SCALARS: dict[Any, Reader] = {str: _text, int: _number, float: _decimal, bool: _flag}
