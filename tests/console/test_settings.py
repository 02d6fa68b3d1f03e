"""Settings from the environment, each in a fresh process."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from console.settings import kept_secret

ROOT = Path(__file__).parent.parent.parent
SHOWN = (
    "SECRET_KEY DEBUG ALLOWED_HOSTS DATABASES SESSION_COOKIE_SECURE SECURE_HSTS_SECONDS STORAGES "
    "WHITENOISE_USE_FINDERS CELERY_BROKER_URL HISTORY_URL MIDDLEWARE CSRF_TRUSTED_ORIGINS "
    "SECURE_HSTS_INCLUDE_SUBDOMAINS SECURE_HSTS_PRELOAD TRUSTED_PROXIES SESSION_COOKIE_AGE SESSION_IDLE_S"
)


def settings_with(data: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    shown = f"{{name: getattr(settings, name) for name in {SHOWN.split()}}}"
    code = f"import json; from console import settings; print(json.dumps({shown}, default=str))"
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**clean, "TIDEMARK_DATA": str(data), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TIDEMARK_HTTPS", "ture", "TIDEMARK_HTTPS is 'ture': set it to true or false."),
        ("HISTORY_DAYS", "3 weeks", "HISTORY_DAYS is '3 weeks': set it to a whole number."),
        ("LAG_SLO_TARGET", "99%", "LAG_SLO_TARGET is '99%': set it to a number."),
        ("DATABASE_URL", "nonsense", "DATABASE_URL is not an address such as postgres://"),
    ],
)
def test_a_command_names_a_mistyped_setting(tmp_path: Path, variable: str, value: str, words: str) -> None:
    found = command(tmp_path / "var", **{variable: value, "SECRET_KEY": "x" * 50})
    assert (found.returncode, "Traceback" in found.stderr) == (1, False)
    assert words in found.stderr


def test_a_command_without_a_database_says_how_to_set_it_up(tmp_path: Path) -> None:
    found = command(tmp_path / "var")
    assert (found.returncode, "Traceback" in found.stderr) == (1, False)
    assert "The database cannot be used: no such table" in found.stderr
    assert "manage.py prepare --migrate" in found.stderr


def command(data: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run ``manage.py clusters list`` without any other setting."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "manage.py", "clusters", "list"],
        cwd=ROOT,
        env={**clean, "TIDEMARK_DATA": str(data), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_runs_without_any_variable(tmp_path: Path) -> None:
    found = json.loads(settings_with(tmp_path / "var").stdout)
    default, metrics = found["DATABASES"]["default"], found["DATABASES"]["metrics"]
    assert (default["NAME"], metrics["NAME"]) == (
        str(tmp_path / "var/console.sqlite3"),
        str(tmp_path / "var/metrics.sqlite3"),
    )
    for database in (default, metrics):
        assert (database["OPTIONS"]["timeout"], database["OPTIONS"]["transaction_mode"]) == (20, "IMMEDIATE")
        assert "journal_mode=WAL" in database["OPTIONS"]["init_command"]
    assert "synchronous=FULL" in default["OPTIONS"]["init_command"], "plans, jobs, ledgers, audit"
    assert "synchronous=NORMAL" in metrics["OPTIONS"]["init_command"]
    assert (found["DEBUG"], found["ALLOWED_HOSTS"]) == (False, ["127.0.0.1", "localhost", "[::1]"])
    assert found["HISTORY_URL"] == f"file://{tmp_path}/var/history"
    assert found["WHITENOISE_USE_FINDERS"] is True
    assert "django.contrib.auth.middleware.LoginRequiredMiddleware" in found["MIDDLEWARE"]
    kept = tmp_path / "var/secret_key"
    assert kept.read_text() == found["SECRET_KEY"] and len(found["SECRET_KEY"]) == 64
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(settings_with(tmp_path / "var").stdout)["SECRET_KEY"] == found["SECRET_KEY"]


def test_it_makes_one_key_when_several_start_at_once(tmp_path: Path) -> None:
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda: keys.append(kept_secret(tmp_path / "secret_key"))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 16 and len(set(keys)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["secret_key"]


def test_it_grows_by_settings(tmp_path: Path) -> None:
    found = json.loads(
        settings_with(
            tmp_path,
            SECRET_KEY="given",
            DATABASE_URL="postgres://tide:mark@db.example.org:5433/console",
            METRICS_DATABASE_URL="postgres://tide:mark@db.example.org:5433/metrics",
            REDIS_URL="unix:///run/redis.sock",
            ALLOWED_HOSTS="console.example.org,console",
            CSRF_TRUSTED_ORIGINS="https://console.example.org",
            TIDEMARK_HTTPS="true",
            STATIC_ROOT=str(tmp_path / "static"),
            HISTORY_URL="s3://bucket/history",
        ).stdout
    )
    default = found["DATABASES"]["default"]
    assert (default["ENGINE"], default["HOST"], default["PORT"], default["NAME"]) == (
        "django.db.backends.postgresql",
        "db.example.org",
        5433,
        "console",
    )
    assert default["OPTIONS"] == {"pool": {"min_size": 0, "max_size": 16, "timeout": 20}}
    assert (default["CONN_HEALTH_CHECKS"], default.get("CONN_MAX_AGE", 0)) == (True, 0)
    assert found["SECRET_KEY"] == "given"
    assert found["CELERY_BROKER_URL"] == "redis+socket:///run/redis.sock"
    assert (found["SESSION_COOKIE_SECURE"], found["SECURE_HSTS_SECONDS"]) == (True, 31536000)
    assert (found["SECURE_HSTS_INCLUDE_SUBDOMAINS"], found["SECURE_HSTS_PRELOAD"]) == (False, False)
    assert (found["SESSION_COOKIE_AGE"], found["SESSION_IDLE_S"]) == (14 * 86_400, 8 * 3_600)
    assert (
        found["STORAGES"]["staticfiles"]["BACKEND"]
        == "whitenoise.storage.CompressedManifestStaticFilesStorage"
    )
    assert found["ALLOWED_HOSTS"] == ["console.example.org", "console"]
    assert found["HISTORY_URL"] == "s3://bucket/history"


def test_it_wants_a_key_that_all_machines_share(tmp_path: Path) -> None:
    refused = settings_with(tmp_path, DATABASE_URL="postgres://tide:mark@db.example.org/console")
    assert refused.returncode == 1
    assert "Set SECRET_KEY: with DATABASE_URL every process must be given the same one." in refused.stderr


def test_it_says_which_variable_is_wrong(tmp_path: Path) -> None:
    refused = settings_with(tmp_path, DEBUG="perhaps", SECRET_KEY="given")
    assert refused.returncode != 0
    assert refused.stderr.rstrip().endswith("DEBUG is 'perhaps': set it to true or false.")


def test_other_services_of_the_domain_are_bound_to_tls_only_when_asked(tmp_path: Path) -> None:
    asked = {"TIDEMARK_HSTS_SUBDOMAINS": "true", "TIDEMARK_HSTS_PRELOAD": "true", "SECRET_KEY": "given"}
    for https, expected in (("true", True), ("false", False)):
        found = json.loads(settings_with(tmp_path, TIDEMARK_HTTPS=https, **asked).stdout)
        assert (found["SECURE_HSTS_INCLUDE_SUBDOMAINS"], found["SECURE_HSTS_PRELOAD"]) == (expected, expected)


def test_a_proxy_is_named_by_its_address(tmp_path: Path) -> None:
    found = json.loads(settings_with(tmp_path, TRUSTED_PROXIES="127.0.0.1,10.0.0.0/24").stdout)
    assert found["TRUSTED_PROXIES"] == ["127.0.0.1/32", "10.0.0.0/24"]
    refused = settings_with(tmp_path, TRUSTED_PROXIES="proxy.example.org")
    assert "TRUSTED_PROXIES: 'proxy.example.org' does not appear to be" in refused.stderr
