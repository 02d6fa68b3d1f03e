"""Check whether this machine can run Spark, loading nothing. `python -m spark.process.java` prints the problem."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

JAVA_VERSION_MIN = 17  # PySpark 4.3 refuses older ones


class JavaMissing(RuntimeError):
    """Spark needs a Java runtime, and this machine has none that is new enough."""


def java_problem() -> str | None:
    """Return the problem with Java here, in one sentence with its remedy; None when Spark can start."""
    java = (
        os.path.join(os.environ["JAVA_HOME"], "bin", "java")
        if os.environ.get("JAVA_HOME")
        else shutil.which("java")
    )
    remedy = (
        "On Debian: apt-get install openjdk-17-jre-headless; or set SPARK_REMOTE to a Spark Connect server."
    )
    if java is None:
        return (
            f"Spark reports need Java {JAVA_VERSION_MIN} or newer and there is none on this machine. {remedy}"
        )
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Spark reports need Java, and {java} does not run ({error}). {remedy}"
    version = java_version(output)
    if version is None or version < JAVA_VERSION_MIN:
        is_what = "does not say its version" if version is None else f"is Java {version}"
        return f"Spark reports need Java {JAVA_VERSION_MIN} or newer; {java} {is_what}. {remedy}"
    return None


def java_version(output: str) -> int | None:
    """Return the feature release out of `java -version`: 17 of "17.0.15", 8 of "1.8.0_402"; None without one."""
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else None


if __name__ == "__main__":
    sys.stdout.write(java_problem() or "")
