"""Read settings from the environment: each in its type and within its limits, or refused with its name.

A refusal is ImproperlyConfigured. It repeats the value, unless that may hold a password.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

TRUE, FALSE = ("true", "on", "ok", "y", "yes", "1"), ("false", "off", "n", "no", "0", "")
DAYS_MAX = 36_500  # a hundred years: later ends lie beyond the calendar of databases
NUMBER_MAX = 10**12
ENGINES = ("django.db.backends.postgresql", "django.db.backends.sqlite3")
HOST_NAME = re.compile(r"\*|[A-Za-z0-9.*?_-]+|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*")
STORAGE = re.compile(r"/.*|[a-z][a-z0-9+.:-]*://.+")
WEB_ADDRESS = re.compile(r"https?://[^\s/]+(/\S*)?")
MAIL_SENDER = re.compile(r"[^\r\n]*[^\s@<>]+@[^\s@<>]+>?")


class Env(environ.Env):  # type: ignore[misc] # the package has no types
    """The environment; a mistyped setting raises ImproperlyConfigured with its name."""

    def get_value(self, var: str, cast: Any = None, *rest: Any, **options: Any) -> Any:
        """Return the value of a setting in its type."""
        given = os.environ.get(var)
        if given is not None and cast is bool and given.lower() not in (*TRUE, *FALSE):
            raise ImproperlyConfigured(f"{var} is {given!r}: set it to true or false.")
        return super().get_value(var, cast, *rest, **options)

    def whole(self, var: str, default: int, *, least: int = 1, most: int = NUMBER_MAX) -> int:
        """Return a whole number between two limits."""
        given = os.environ.get(var)
        try:
            number = default if given is None else int(given)
        except ValueError:
            raise ImproperlyConfigured(f"{var} is {given!r}: set it to a whole number.") from None
        if not least <= number <= most:
            raise ImproperlyConfigured(f"{var} is {number}: set it to a number from {least:,} to {most:,}.")
        return number

    def days(self, var: str, default: int) -> int:
        """Return a number of days, at least one."""
        return self.whole(var, default, most=DAYS_MAX)

    def number(self, var: str, default: float, *, least: float, most: float) -> float:
        """Return a number between two limits."""
        given = os.environ.get(var)
        try:
            number = default if given is None else float(given)
        except ValueError:
            raise ImproperlyConfigured(f"{var} is {given!r}: set it to a number.") from None
        if not least <= number <= most:  # nan neither
            raise ImproperlyConfigured(f"{var} is {given}: set it to a number from {least:g} to {most:g}.")
        return number

    def like(
        self, var: str, default: str, pattern: re.Pattern[str], wanted: str, *, is_shown: bool = True
    ) -> str:
        """Return a text that matches ``pattern``; empty is the default."""
        given = os.environ.get(var, "").strip()
        if given and not pattern.fullmatch(given):
            found = f"is {given!r}" if is_shown else "is mistyped"
            raise ImproperlyConfigured(f"{var} {found}: set it to {wanted}.")
        return given or default

    def each_like(self, var: str, default: list[str], pattern: re.Pattern[str], wanted: str) -> list[str]:
        """Return a list of texts, comma separated, that match ``pattern``."""
        found = [one.strip() for one in self.list(var, default=default) if one.strip()]
        for one in found:
            if not pattern.fullmatch(one):
                raise ImproperlyConfigured(f"{var} has {one!r}: set it to {wanted}.")
        return found

    def parsed(self, var: str, read: Callable[[], Any], wanted: str) -> Any:
        """Return what ``read`` makes of an address that may hold a password."""
        try:
            return read()
        except (ValueError, KeyError, ImproperlyConfigured):
            raise ImproperlyConfigured(f"{var} is mistyped: set it to {wanted}.") from None


env = Env()


def redis_address(address: str) -> str:
    """Return the address of a Redis server as given. Raises ValueError when it is none."""
    parts = urlsplit(address)
    if parts.scheme == "unix":
        is_one = not parts.netloc.rpartition("@")[2] and len(parts.path) > 1
    else:
        database = parts.path.strip("/")
        is_one = parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
        is_one = is_one and (not database or database.isdecimal())
    if not is_one:
        raise ValueError(address)
    return address


def database(variable: str, default: str) -> Mapping[str, object]:
    """Return a database of PostgreSQL or SQLite. Raises ValueError or ImproperlyConfigured for any other."""
    found: Mapping[str, object] = env.db_url(variable, default=default)
    if found.get("ENGINE") not in ENGINES or not found["NAME"]:
        raise ValueError(variable)
    return found


def store_folder(name: str, folder: str) -> dict[str, str]:
    """Return one entry of STORE_FOLDERS. Raises ValueError when a part of it is missing."""
    cluster, _, broker_name = name.strip().partition(":")
    if not (cluster and broker_name and folder.startswith("/")):
        raise ValueError(name)
    return {"cluster": cluster, "broker_name": broker_name, "path": folder}


def log_level() -> str:
    """Return LOG_LEVEL, a level of Python's logging."""
    level = os.environ.get("LOG_LEVEL", "").strip().upper() or "INFO"
    if level not in logging.getLevelNamesMapping():
        raise ImproperlyConfigured(
            f"LOG_LEVEL is {level!r}: set it to DEBUG, INFO, WARNING, ERROR or CRITICAL."
        )
    return level
