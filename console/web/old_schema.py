"""Tell a database whose tables are of another version of the console from one that does not answer."""

from django.db import OperationalError, ProgrammingError

from console.text import Text

# In errors of SQLite, which has one class for them and for a file that cannot be read.
SQLITE_WORDS = ("no such table", "no such column", "has no column named")
# PostgreSQL's undefined_table and undefined_column.
UNDEFINED = ("42P01", "42703")
# Code and title over REST.
OLD_SCHEMA = ("database_outdated", "The console's database is of another version")
ADVICE = Text(
    "The tables of the console’s database are of another version of the console. Run “manage.py prepare --migrate” "
    "on the console’s machine"
)


def is_old_schema(error: BaseException | None) -> bool:
    """Return whether a statement failed because a table or a column is missing."""
    if isinstance(error, OperationalError):
        return any(words in str(error) for words in SQLITE_WORDS)
    return isinstance(error, ProgrammingError) and getattr(error.__cause__, "sqlstate", "") in UNDEFINED
