"""Jobs without Spark: a folder from which `python -m spark.process.job_server` runs what a test says."""

from __future__ import annotations

import shutil
from pathlib import Path

PREAMBLE = "import json, os, sys, time\nspec = json.loads(sys.stdin.readline())\nprint('TAKEN', flush=True)\n"
ANSWER = """
print("RESULT " + json.dumps({"job_id": spec["job_id"], "output": spec["output"], "rows": %d, "hours": 1,
    "elapsed_ms": 5, "spark_version": "4.3.0", "warnings": %r, **%r}), flush=True)
"""


def write_job(folder: Path, code: str, *, preamble: str = PREAMBLE, name: str = "job_server") -> None:
    """What runs in the place of the jobs' process. `settings.BASE_DIR` must be the folder."""
    package = folder / "spark/process"
    package.mkdir(parents=True, exist_ok=True)
    # Python takes compiled code of the same second and size for that of the new text.
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / f"{name}.py").write_text(preamble + code)


def answer(rows: int, warnings: tuple[str, ...] = (), **more: object) -> str:
    """Code that ends a job with a result; `more`: other fields of it."""
    return ANSWER % (rows, list(warnings), more)
