"""The process that Spark forks its Python workers from, on this machine.

What they need is imported once, before the first of them, and not by each. `spark.python.daemon.module` names
it; on a cluster executors have Spark's own.
"""

from __future__ import annotations

import pyspark.daemon
import pyspark.worker  # noqa: F401  # what a worker runs

import spark.output.lag_rows
import spark.output.part_files  # noqa: F401  # with NumPy and pyarrow: a second of imports

if __name__ == "__main__":
    pyspark.daemon.manager()
