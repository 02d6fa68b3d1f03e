"""Settings from the environment, each in a fresh process."""

import json
import os
import re
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
    return run([sys.executable, "-c", code], data, **environ)


NONSENSE = {
    "ALLOWED_HOSTS": "https://console.example.org",
    "CSRF_TRUSTED_ORIGINS": "console.example.org",
    "DATABASE_POOL_MAX": "0",
    "DATABASE_URL": "nonsense",
    "DEBUG": "ture",
    "EMAIL_URL": "smtp://host:port",
    "EPISODE_DAYS": "-1",
    "HISTORY_DAYS": "3 weeks",
    "HISTORY_URL": "nonsense",
    "LAG_SLO_MS": "0",
    "LAG_SLO_TARGET": "99",
    "LEDGER_RETENTION_DAYS": "1e9",
    "LOG_LEVEL": "loud",
    "MAIL_FROM": "nonsense",
    "METRICS_DATABASE_URL": "mysql://host/name",
    "METRICS_QUEUES": "some",
    "METRICS_QUEUES_MAX": "-1",
    "METRICS_TOPICS_MAX": "all",
    "PUBLIC_URL": "tidemark.example.org",
    "QUARANTINE_HOURS": "-1",
    "REDIS_URL": "nonsense",
    "REPORTS_AT_ONCE": "0",
    "REPORTS_URL": "nonsense",
    "REPORT_DAY_DAYS": "0",
    "REPORT_HOUR_DAYS": "0",
    "REPORT_QUEUE_DAYS": "99999999",
    "REPORT_RECOVERY_MS": "1 h",
    "REPORT_RUN_DAYS": "",
    "REPORT_TIME_ZONE": "Mars",
    "REPORT_WEEK_DAYS": "0",
    "SESSION_DAYS": "0",
    "SESSION_IDLE_MINUTES": "-5",
    "SPARK_IDLE_S": "nan",
    "SPARK_LOCAL_CONNECT_REUSE": "2",
    "SPARK_MASTER": "nonsense",
    "SPARK_REMOTE": "spark.example.org",
    "STATIC_ROOT": "static",
    "STORE_FOLDERS": "broker-a=/folder",
    "TIDEMARK_DATA": "/dev/null",
    "TIDEMARK_DEMO": "maybe",
    "TIDEMARK_EMBEDDED_NAMESRV": "nonsense",
    "TIDEMARK_HOST": "No Such Name",
    "TIDEMARK_HSTS_PRELOAD": "2",
    "TIDEMARK_HSTS_SUBDOMAINS": "2",
    "TIDEMARK_HTTPS": "ture",
    "TRUSTED_PROXIES": "proxy",
    "WEBHOOK_HOSTS": "https://chat.example.org",
    "WORKER_COLLECT_THREADS": "0",
    "WORKER_OPERATE_THREADS": "many",
    "WORKER_REPORT_THREADS": "0",
}
# Any text is a value of these.
FREE = {"DEAD_LETTER_CAUSE_PROPERTIES", "METRICS_TOKEN", "SECRET_KEY"}


def test_each_setting_refuses_nonsense_with_its_name(tmp_path: Path) -> None:
    code = """
import importlib, json, os, sys
from django.core.exceptions import ImproperlyConfigured
from console import settings
said = {}
for name, value in json.loads(sys.argv[1]).items():
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        importlib.reload(settings)
    except ImproperlyConfigured as error:
        said[name] = str(error)
    if before is None:
        del os.environ[name]
    else:
        os.environ[name] = before
print(json.dumps(said))
"""
    done = run([sys.executable, "-c", code, json.dumps(NONSENSE)], tmp_path / "var", SECRET_KEY="x" * 50)
    said = json.loads(done.stdout)
    assert {name for name in NONSENSE if not said.get(name, "").startswith(name)} == set()
    assert [words for words in said.values() if not re.search(r"[Ss]et it to |[Uu]se |[Nn]ame ", words)] == []


def test_the_nonsense_above_is_that_of_all_settings() -> None:
    source = (ROOT / "console/settings.py").read_text() + (
        ROOT / "console/process/environment.py"
    ).read_text()
    read = set(re.findall(r'(?:env\.\w+|environ\.get|database)\(\s*"([A-Z_]+)"', source))
    assert read == {*NONSENSE, *FREE}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALLOWED_HOSTS", "*,.example.org,[::1],10.0.0.1"),
        ("EMAIL_URL", "smtp+tls://user:p%40ss@mail.example.org:587"),
        ("HISTORY_URL", "/srv/history"),
        ("LOG_LEVEL", "debug"),
        ("MAIL_FROM", "Tidemark <tidemark@example.org>"),
        ("REDIS_URL", "rediss://:secret@redis.example.org:6380/2"),
        ("REDIS_URL", "unix://:secret@/run/redis.sock?db=1"),
        ("SPARK_MASTER", "spark://one:7077,two:7077"),
        ("WEBHOOK_HOSTS", "chat.example.org,*.hooks.example.org,::1"),
    ],
)
def test_addresses_in_their_usual_forms_are_accepted(tmp_path: Path, variable: str, value: str) -> None:
    assert settings_with(tmp_path, **{variable: value}).returncode == 0


NOT_A_NUMBER = ("LAG_SLO_TARGET", "99%", "LAG_SLO_TARGET is '99%': set it to a number.")
COMMAND, WORKERS = ["manage.py", "clusters", "list"], ["-m", "console.workers"]


@pytest.mark.parametrize(
    ("program", "variable", "value", "words"),
    [
        (COMMAND, *NOT_A_NUMBER),
        (WORKERS, *NOT_A_NUMBER),
        (
            COMMAND,
            "REDIS_URL",
            "redis://:secret@",
            "REDIS_URL is mistyped: set it to an address such as redis://",
        ),
        (COMMAND, "TIDEMARK_DATA", "/proc/x", "TIDEMARK_DATA: the folder /proc/x cannot be written ("),
    ],
)
def test_a_program_names_a_mistyped_setting(
    tmp_path: Path, program: list[str], variable: str, value: str, words: str
) -> None:
    found = run([sys.executable, *program], tmp_path / "var", **{variable: value})
    assert (found.returncode, "Traceback" in found.stderr, "secret" in found.stderr) == (1, False, False)
    assert words in found.stderr


def test_the_web_process_names_a_mistyped_setting(tmp_path: Path) -> None:
    found = run([sys.executable, "-c", "import console.asgi"], tmp_path / "var", REDIS_URL="nonsense")
    assert (found.returncode, "Traceback" in found.stderr) == (1, False)
    assert found.stderr.startswith("The settings are wrong. REDIS_URL is mistyped")


def test_preparing_refuses_a_setting_that_the_checks_refuse(tmp_path: Path) -> None:
    found = run([sys.executable, "manage.py", "prepare"], tmp_path / "var", HISTORY_URL="nowhere://x")
    assert (found.returncode, "Traceback" in found.stderr) == (1, False)
    assert "HISTORY_URL: no installed package reads nowhere://" in found.stderr


def test_a_command_without_a_database_says_how_to_set_it_up(tmp_path: Path) -> None:
    found = run([sys.executable, "manage.py", "clusters", "list"], tmp_path / "var")
    assert (found.returncode, "Traceback" in found.stderr) == (1, False)
    assert "The database cannot be used: no such table" in found.stderr
    assert "manage.py prepare --migrate" in found.stderr


def run(command: list[str], data: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run a program without any other setting."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        command,
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
    assert "console.access.session.idle_session.SignInMiddleware" in found["MIDDLEWARE"]
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
        "console.postgresql",
        "db.example.org",
        5433,
        "console",
    )
    assert default["OPTIONS"] == {
        "connect_timeout": 5,
        "tcp_user_timeout": 10_000,
        "pool": {"most": 16, "wait_s": 20},
    }
    assert default.get("CONN_MAX_AGE", 0) == 0
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
