"""Text that a database refuses becomes a visible escape, in statements and in JSON, on both databases."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection

from console.access.models import AuditEvent
from console.text.storable import storable, storable_value

HALF = "\ud83d"  # of a surrogate pair


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("naïve 消息 \U0001f30a", "naïve 消息 \U0001f30a"),
        ("a\0b", "a\\x00b"),
        (f"a{HALF}b", "a\\ud83db"),
        (f"\0消{HALF}", "\\x00消\\ud83d"),
        ("a\\x00b", "a\\x00b"),
    ],
    ids=["plain", "astral", "nul", "half", "both", "escape"],
)
def test_what_no_database_keeps_is_escaped(text: str, kept: str) -> None:
    assert storable(text) == kept
    assert storable_value({text: [text, 1, None, {"a": text}]}) == {kept: [kept, 1, None, {"a": kept}]}


def test_the_escape_counts_for_the_limit() -> None:
    assert storable("\0" * 10, 8) == "\\x00\\x00"


def test_it_is_kept_and_found_again(db: None) -> None:
    AuditEvent.objects.create(verb="test", subject=f"k\0{HALF}", before={"a\0": [HALF]}, after=f"\0{HALF}")
    event = AuditEvent.objects.get(subject=f"k\0{HALF}")
    assert event.subject == "k\\x00\\ud83d"
    assert (event.before, event.after) == ({"a\\x00": ["\\ud83d"]}, "\\x00\\ud83d")
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE access_auditevent SET verb = %s WHERE subject = %s", [("a\0", f"k\0{HALF}")]
        )
    assert AuditEvent.objects.get().verb == "a\\x00"


def test_names_are_untouched(db: None) -> None:
    User.objects.create_user("zoë")
    assert User.objects.get(username="zoë").username == "zoë"
