"""System checks of the set-up, each with a fix. `doctor` shows them all.

Those marked ``deploy`` check outside this process (Redis, Java, databases); `manage.py check --deploy` and `doctor` run
them.
"""

import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import redis
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor
from django.utils.module_loading import import_string
from redis.exceptions import RedisError

from console.report import process

TAG = "tidemark"
NETWORK_FILE_SYSTEMS = re.compile(r"^(nfs|cifs|smb|9p|fuse\.(sshfs|glusterfs|s3fs|rclone)|ceph|lustre)")
STATIC_LIST = "staticfiles.json"
PROBE_TIMEOUT_S = 2.0


@register(TAG)
def check_plan_kinds(**_: Any) -> Sequence[CheckMessage]:
    """Check that the table of plan kinds can be loaded."""
    try:
        import_string(settings.PLAN_KINDS)
    except ImportError as error:
        return [
            Error(
                f"PLAN_KINDS: {error}",
                hint="Set it to a table of plan kinds like console.plans.PLAN_KINDS.",
                id="tidemark.E001",
            )
        ]
    return []


@register(TAG)
def check_data_folder(**_: Any) -> Sequence[CheckMessage]:
    """Check that the data folder is on a disk where SQLite can lock."""
    kind = file_system_of(settings.DATA_DIR, Path("/proc/mounts"))
    if NETWORK_FILE_SYSTEMS.match(kind) and _uses_sqlite():
        hint = "Put TIDEMARK_DATA on a local disk, or use PostgreSQL (DATABASE_URL, METRICS_DATABASE_URL)."
        return [
            Warning(
                f"The SQLite files are on a network disk ({kind}), where their log does not work.",
                hint,
                id="tidemark.W003",
            )
        ]
    return []


@register(TAG)
def check_storage_urls(**_: Any) -> Sequence[CheckMessage]:
    """Check that HISTORY_URL and REPORTS_URL are usable: otherwise the first file fails, an hour later."""
    return [found for name in ("HISTORY_URL", "REPORTS_URL") for found in _storage_problems(name)]


def _storage_problems(name: str) -> Sequence[CheckMessage]:
    protocol = fsspec.utils.get_protocol(str(getattr(settings, name)))
    if protocol == "memory":
        hint = "Set it to a folder (file:///...) or object storage: memory is lost when a process ends."
        return [
            Error(
                f"{name}: memory:// is not shared between processes and not kept.",
                hint=hint,
                id="tidemark.E013",
            )
        ]
    try:
        fsspec.get_filesystem_class(protocol)
    except (ImportError, ValueError) as error:
        hint = f"Install it for the console and its workers, or set a folder (file:///...). {error}"
        return [Error(f"{name}: no installed package reads {protocol}://", hint=hint, id="tidemark.E012")]
    return []


@register(TAG)
def check_static_root(**_: Any) -> Sequence[CheckMessage]:
    """Check that STATIC_ROOT was filled: every page would fail without its list of files."""
    if not settings.STATIC_ROOT or settings.DEBUG or (Path(settings.STATIC_ROOT) / STATIC_LIST).is_file():
        return []
    hint = "Run manage.py collectstatic, or unset STATIC_ROOT: files are then served from their source."
    return [Error(f"STATIC_ROOT: {settings.STATIC_ROOT} has no {STATIC_LIST}.", hint, id="tidemark.E015")]


@register(TAG)
def check_secret_key(**_: Any) -> Sequence[CheckMessage]:
    """Check that other users cannot read the stored key."""
    file = settings.DATA_DIR / "secret_key"
    if file.exists() and file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return [Warning(f"Other users can read {file}.", hint=f"chmod 600 {file}", id="tidemark.W004")]
    return []


@register(TAG)
def check_origins(**_: Any) -> Sequence[CheckMessage]:
    """Check that host, origin, cookie and proxy settings are consistent."""
    found: list[CheckMessage] = []
    if "*" in settings.ALLOWED_HOSTS:
        hint = "List the hosts: with * any site can open a socket with a visitor's session."
        found.append(Warning("ALLOWED_HOSTS allows every host.", hint=hint, id="tidemark.W005"))
    if any(origin.startswith("https://") for origin in settings.CSRF_TRUSTED_ORIGINS) and not settings.HTTPS:
        hint = "Set TIDEMARK_HTTPS=true, so that cookies are only sent over TLS."
        found.append(
            Warning("CSRF_TRUSTED_ORIGINS names https, TIDEMARK_HTTPS is off.", hint=hint, id="tidemark.W006")
        )
    if settings.HTTPS and not settings.TRUSTED_PROXIES:
        hint = "List the proxies that terminate TLS in TRUSTED_PROXIES: otherwise every visitor has their address."
        found.append(
            Warning("TIDEMARK_HTTPS is on, TRUSTED_PROXIES is empty.", hint=hint, id="tidemark.W014")
        )
    return found


@register(TAG, deploy=True)
def check_redis(**_: Any) -> Sequence[CheckMessage]:
    """Check that Redis answers: without it no task runs and pages do not update."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=PROBE_TIMEOUT_S) as client:
            client.ping()
    except (RedisError, OSError, ValueError) as error:
        hint = "`manage.py up` starts its own; otherwise start Redis or Valkey and set REDIS_URL."
        return [Error(f"Redis does not answer: {error}", hint=hint, id="tidemark.E007")]
    return []


@register(TAG, deploy=True)
def check_java(**_: Any) -> Sequence[CheckMessage]:
    """Check Java for Spark, located as the jobs locate it: only reports need it."""
    problem = None if settings.SPARK_REMOTE else process.java_problem()
    hint = "Everything else works without it."
    return [Warning(problem, hint=hint, id="tidemark.W008")] if problem else []


@register(TAG, deploy=True)
def check_migrations(**_: Any) -> Sequence[CheckMessage]:
    """Check that both databases answer and have every table."""
    found: list[CheckMessage] = []
    for alias in settings.DATABASES:
        try:
            executor = MigrationExecutor(connections[alias])
            pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
        except DatabaseError as error:
            hint = "Check DATABASE_URL and METRICS_DATABASE_URL, and that the server is running."
            found.append(Error(f"Database {alias} does not answer: {error}", hint=hint, id="tidemark.E010"))
            continue
        if pending:
            hint = f"manage.py migrate --database {alias}"
            found.append(
                Error(
                    f"Database {alias} has {len(pending)} migrations to apply.", hint=hint, id="tidemark.E011"
                )
            )
    return found


def file_system_of(folder: Path, mounts: Path) -> str:
    """Return the type of a folder's file system ("ext4"), by its nearest mount point; "" if unknown."""
    if not mounts.exists():
        return ""
    best, kind = "", ""
    for line in mounts.read_text().splitlines():
        _, mount_point, its_kind, *_ = line.split()
        if folder.resolve().is_relative_to(mount_point) and len(mount_point) >= len(best):
            best, kind = mount_point, its_kind
    return kind


def _uses_sqlite() -> bool:
    return any("sqlite3" in database["ENGINE"] for database in settings.DATABASES.values())
