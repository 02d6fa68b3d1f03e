"""Import directions (docs/architecture.md §3) hold, and brokerd loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def lint(cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_it_points_imports_one_way() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_it_loads_nothing_heavy_into_brokerd() -> None:
    """brokerd idles in tens of megabytes: what its process imports is checked, not only what it names."""
    code = "import sys, brokerd.controller; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for heavy in ("django", "numpy", "pyarrow", "pandas", "pyspark", "celery", "redis"):
        assert f"'{heavy}'" not in loaded
