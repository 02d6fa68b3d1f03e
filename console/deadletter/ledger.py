"""Writing many ledger rows at once, in plain SQL that SQLite and PostgreSQL both prepare once.

Measured: a replay of 20,000 letters takes 5.0 s this way and 13.6 s with Django's bulk methods, on the same busy
machine. A row is found again by what makes it unique, so its primary key is never needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from console.deadletter.models import ReplayLedger

TABLE = ReplayLedger._meta.db_table
INSERTED = [field.attname for field in ReplayLedger._meta.concrete_fields if not field.primary_key]
OUTCOME = ("state", "reason", "target_offset", "target_from_offset", "updated_at_ms")
UNIQUE = ("plan_id", "topic", "broker_name", "queue_id", "queue_offset")

QUOTED = [f'"{name}"' for name in INSERTED]  # "group" is a word of SQL; both databases quote names like this
INSERT = f"INSERT INTO {TABLE} ({', '.join(QUOTED)}) VALUES ({', '.join(['%s'] * len(INSERTED))})"
UPDATE = (
    f"UPDATE {TABLE} SET {', '.join(f'{name} = %s' for name in OUTCOME)} "
    f"WHERE {' AND '.join(f'{name} = %s' for name in UNIQUE)}"
)


def insert_rows(rows: Sequence[ReplayLedger]) -> None:
    """Add rows that do not exist yet; raises IntegrityError for a letter that the plan has decided already."""
    _many(INSERT, [tuple(getattr(row, name) for name in INSERTED) for row in rows])


def write_outcomes(rows: Sequence[ReplayLedger]) -> None:
    """Save state, reason, target offsets and time of rows that exist."""
    _many(UPDATE, [tuple(getattr(row, name) for name in (*OUTCOME, *UNIQUE)) for row in rows])


def _many(statement: str, values: list[tuple[Any, ...]]) -> None:
    if values:
        with connection.cursor() as cursor:
            cursor.executemany(statement, values)
