"""Build the compiled functions: `python -m brokerd.compiled.build`, in set-up. Without a compiler nothing is lost."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).with_name("hot.c")


def build(folder: Path = SOURCE.parent) -> str:
    """Build into `folder` what is not there or older than its source; return why that failed, "" if it did not."""
    built = folder / f"hot{sysconfig.get_config_var('EXT_SUFFIX')}"
    if built.exists() and built.stat().st_mtime >= SOURCE.stat().st_mtime:
        return ""
    draft = built.with_suffix(f".{os.getpid()}")
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-shared", "-fPIC"]
    command += [f"-I{sysconfig.get_path('include')}", str(SOURCE), "-o", str(draft), "-lz"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no C compiler: {error}"
    if result.returncode != 0:
        draft.unlink(missing_ok=True)
        return f"it needs the headers of Python and zlib: {result.stderr.strip()[:400]}"
    draft.replace(built)
    return ""


def main() -> None:
    failure = build()
    if failure:
        sys.stdout.write(f"brokerd stays pure Python: {failure}\n")


if __name__ == "__main__":
    main()
