"""The words of errors that Django REST framework finds, for callers who read JSON and not Python."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rest_framework import exceptions

_KINDS = {
    "list": "a list",
    "dict": "an object",
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "NoneType": "null",
}
# A text of the framework → ours; `\1` is what the text holds.
_SENTENCES = [
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"This field may not be null\.", "Must not be null."),
        (r"This field may not be blank\.", "Must not be empty."),
        (r"This list may not be empty\.", "Must not be empty."),
        (r"A valid integer is required\.", "Send a whole number."),
        (r"A valid number is required\.", "Send a number."),
        (r"Not a valid string\.", "Send a string."),
        (r"Must be a valid boolean\.", "Send true or false."),
        (r"Null characters are not allowed\.", "Must not contain a zero byte."),
        (r"Ensure this value is greater than or equal to (.+)\.", r"Must be at least \1."),
        (r"Ensure this value is less than or equal to (.+)\.", r"Must be at most \1."),
        (
            r"Ensure this field has no more than (\d+) (characters|elements)\.",
            r"Must have at most \1 \2.",
        ),
        (
            r"Ensure this field has at least (\d+) (characters|elements)\.",
            r"Must have at least \1 \2.",
        ),
        (r"Invalid data\. Expected a dictionary, but got (\w+)\.", r"Send a JSON object, not <\1>."),
        (r"Expected a dictionary of items but got type \"(\w+)\"\.", r"Send a JSON object, not <\1>."),
        (r"Expected a list of items but got type \"(\w+)\"\.", r"Send a JSON list, not <\1>."),
        (
            r"(?:Datetime has wrong format|Expected a datetime).*",
            "Send a time with its zone (ISO 8601), like 2026-03-12T08:00:00Z.",
        ),
        (r"Datetime value out of range\.", "This time is out of range. Send one like 2026-03-12T08:00:00Z."),
    )
]
_KIND = re.compile(r"<(\w+)>")


def one_of(values: Iterable[str]) -> Any:
    """Return the error messages of a choice field: its refusal lists the choices."""
    return {"invalid_choice": f'"{{input}}" does not exist. One of: {", ".join(values)}.'}


def field_words(detail: str) -> str:
    """Return what is wrong with a field, in words of JSON; texts of our own stay as they are."""
    for pattern, sentence in _SENTENCES:
        found = pattern.fullmatch(detail)
        if found:
            return _KIND.sub(lambda kind: _KINDS.get(kind[1], kind[1]), found.expand(sentence))
    return detail


def refusal_words(error: exceptions.APIException, methods: Iterable[str]) -> str:
    """Return why a request is refused and what to send; ``methods`` are those of the address."""
    detail = str(error.detail)
    if isinstance(error, exceptions.NotAuthenticated):
        return "Send the header Authorization: Bearer <token>, or sign in with a browser."
    if isinstance(error, exceptions.MethodNotAllowed):
        return f"{detail} This address accepts {', '.join(methods)}."
    if isinstance(error, exceptions.UnsupportedMediaType):
        return f"{detail} Send JSON with the header Content-Type: application/json."
    if isinstance(error, exceptions.Throttled):
        wait = getattr(error, "wait", None)
        when = "later" if wait is None else f"in {int(wait) + 1} s"
        return f"More requests in a minute than one caller may send. Try again {when}."
    return detail.removeprefix("JSON parse error - ")
