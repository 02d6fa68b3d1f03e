"""Read single header fields of requests that are too rare for a header class."""

from __future__ import annotations

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.header.fields import INT64_MAX, INT64_MIN


def required(command: RemotingCommand, name: str) -> str:
    """Return a required field. Raises HeaderFieldError when it is missing."""
    value = command.ext_fields.get(name)
    if value is None:
        raise HeaderFieldError(name, "", "is required")
    return value


def optional(command: RemotingCommand, name: str, default: str = "") -> str:
    return command.ext_fields.get(name, default)


def required_int(command: RemotingCommand, name: str) -> int:
    """Return a required number. Raises HeaderFieldError when it is missing or not a whole number."""
    return parse_int(name, required(command, name))


def optional_int(command: RemotingCommand, name: str, default: int) -> int:
    value = command.ext_fields.get(name)
    return default if value is None or value == "" else parse_int(name, value)


def is_true(command: RemotingCommand, name: str) -> bool:
    return command.ext_fields.get(name, "").lower() == "true"


def parse_int(name: str, value: str) -> int:
    """Within 64 bits, as Java's longs: a larger one in a table could be neither saved nor answered."""
    try:
        number = int(value)
    except ValueError:
        raise HeaderFieldError(name, value, "takes a whole number") from None
    if not INT64_MIN <= number <= INT64_MAX:
        raise HeaderFieldError(name, value, f"takes a number from {INT64_MIN} to {INT64_MAX}")
    return number
