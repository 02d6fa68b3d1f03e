"""`sample_week`: make the demo's cluster of a generated week; `up` runs it once, in the background."""

import os
import time
from typing import Any

from django.core.management.base import BaseCommand

from console.demo.week.make import NAME, make

# What people wait for comes first; Spark, its child, takes it over.
NICENESS = 15


class Command(BaseCommand):
    help = "Create the cluster sample-week: seven generated days and their reports, unless it exists already."

    def handle(self, *args: Any, **options: Any) -> None:
        os.nice(NICENESS)
        if make(time.time_ns() // 1_000_000):
            self.stdout.write(f"{NAME} has seven days of generated history, with reports")
