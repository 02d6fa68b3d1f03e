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
    import_module("console.celery")
    import_module("console.checks")
    import_module("django.core.management").execute_from_command_line(argv)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
