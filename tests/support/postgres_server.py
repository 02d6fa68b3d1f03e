"""A PostgreSQL server of a test, that can be stopped and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.support.ports import free_port

USER = "tidemark"


def _programs() -> Path:
    found = shutil.which("initdb") or max(
        map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=""
    )
    assert found, "PostgreSQL is missing: apt-get install postgresql (make test does it when run as root)"
    return Path(found).parent


class PostgresServer:
    """One with the databases named; nothing of it outlives `remove`."""

    def __init__(self, *databases: str) -> None:
        self.port = free_port()
        self._programs = _programs()
        self._folder = Path(tempfile.mkdtemp(prefix="tm-pg-", dir="/tmp"))
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        self._run("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions")
        self.start()
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for name in databases:
                connection.execute(f"CREATE DATABASE {name}")

    def url(self, database: str) -> str:
        return f"postgres://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> PostgresServer:
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200"
        self._run("pg_ctl", "-l", str(self._folder / "log"), "-w", "start", "-o", options)
        return self

    def stop(self) -> None:
        """End it as a crash does: no connection is finished in order."""
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def remove(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "-w", "stop", must_succeed=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str, must_succeed: bool = True) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            command = [
                "setpriv",
                f"--reuid={nobody.pw_uid}",
                f"--regid={nobody.pw_gid}",
                "--clear-groups",
                *command,
            ]
        done = subprocess.run(
            command,
            cwd="/tmp",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert not must_succeed or done.returncode == 0, done.stdout.decode()
