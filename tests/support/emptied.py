"""How a database is emptied after a test with real transactions."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import flush
from django.db.backends.base.base import BaseDatabaseWrapper

# They follow from the models. Django deletes them too, and looks for what is missing model by model: 50 ms of CPU for
# each test and database.
KEPT = {"django_content_type", "auth_permission"}


def empty_quickly() -> None:
    """Let `manage.py flush` of this process leave content types and permissions alone."""
    flush.sql_flush = _sql_flush  # type: ignore[attr-defined]
    flush.emit_post_migrate_signal = lambda *_: None  # type: ignore[attr-defined]


def _sql_flush(style: Any, connection: BaseDatabaseWrapper, **options: bool) -> list[str]:
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    statements: list[str] = connection.ops.sql_flush(
        style, [name for name in tables if name not in KEPT], **options
    )
    return statements
