#!/usr/bin/env python
"""Entry point of every command. ``up`` is answered before Django is loaded: the supervisor stays small."""

import os
import sys
from importlib import import_module


def main(argv: list[str]) -> int | None:
    """Run ``manage.py <command>``; returns the exit code of ``up``, None for Django's commands."""
    if argv[1:2] == ["up"]:
        return int(import_module("console.process.supervisor").main(argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    # The Celery application must be the current one before anything calls `send_task`; checks must be
    # registered.
    exceptions, database = import_module("django.core.exceptions"), import_module("django.db.utils")
    try:
        import_module("console.celery")
        import_module("console.checks")
        import_module("django.core.management").execute_from_command_line(argv)
    except exceptions.ImproperlyConfigured as error:
        return refused(argv, error, f"The settings are wrong. {error}")
    except (database.OperationalError, database.ProgrammingError) as error:
        return refused(
            argv,
            error,
            f"The database cannot be used: {error}. If it is new, set it up with `manage.py prepare --migrate`; "
            "if it does not answer, check DATABASE_URL and METRICS_DATABASE_URL.",
        )
    return None


def refused(argv: list[str], error: Exception, sentence: str) -> int:
    """Write why a command did nothing; with ``--traceback`` raise its error."""
    if "--traceback" in argv:
        raise error
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
