"""System checks: every mistake has its own words."""

from pathlib import Path

import pytest
from pytest_django import Settings

from console import checks
from console.report import process
from console.web.reverse_proxy import networks


def ids(found: object) -> list[str]:
    return [message.id for message in found]  # type: ignore[attr-defined]


def test_it_finds_nothing_wrong_with_the_tests_own_settings() -> None:
    for check in (
        checks.check_plan_kinds,
        checks.check_data_folder,
        checks.check_storage_urls,
        checks.check_secret_key,
        checks.check_origins,
    ):
        assert ids(check()) == []


def test_it_sees_a_missing_table_of_plan_kinds(settings: Settings) -> None:
    settings.PLAN_KINDS = "console.plans.NOTHING"
    assert ids(checks.check_plan_kinds()) == ["tidemark.E001"]


@pytest.mark.parametrize("name", ["HISTORY_URL", "REPORTS_URL"])
@pytest.mark.parametrize("url", ["nothing-like-this://bucket/history", "s3x://bucket"])
def test_it_sees_that_nothing_reaches_the_storage(settings: Settings, url: str, name: str) -> None:
    setattr(settings, name, url)
    (found,) = checks.check_storage_urls()
    protocol, _, _ = url.partition("://")
    assert (found.id, found.msg) == ("tidemark.E012", f"{name}: no installed package reads {protocol}://")


def test_it_sees_a_history_that_no_other_process_could_read(settings: Settings) -> None:
    settings.HISTORY_URL = "memory://history"
    assert ids(checks.check_storage_urls()) == ["tidemark.E013"]


def test_it_sees_a_key_others_can_read(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "secret_key").write_text("x")
    (tmp_path / "secret_key").chmod(0o640)
    (found,) = checks.check_secret_key()
    assert (found.id, found.hint) == ("tidemark.W004", f"chmod 600 {tmp_path}/secret_key")


def test_it_sees_hosts_and_origins_that_do_not_fit(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example.org"]
    assert ids(checks.check_origins()) == ["tidemark.W005", "tidemark.W006"]


def test_it_sees_a_proxy_that_has_no_name(settings: Settings) -> None:
    settings.HTTPS = True
    assert ids(checks.check_origins()) == ["tidemark.W014"]
    settings.TRUSTED_PROXIES = networks(["127.0.0.1"])
    assert ids(checks.check_origins()) == []


def test_it_sees_a_missing_redis(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/r.sock"
    assert ids(checks.check_redis()) == ["tidemark.E007"]


def test_it_sees_a_redis_that_answers(redis_url: str) -> None:
    assert ids(checks.check_redis()) == []


@pytest.mark.django_db(databases=["default", "metrics"])
def test_it_sees_up_to_date_databases() -> None:
    assert ids(checks.check_migrations()) == []


def test_it_sees_java_as_the_jobs_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # wins over PATH
    process._java_problem_of.cache_clear()
    (found,) = checks.check_java()
    process._java_problem_of.cache_clear()
    assert found.id == "tidemark.W008"
    assert f"{tmp_path}/bin/java does not run" in found.msg
    assert "apt-get install openjdk-17-jre-headless" in found.msg


def test_it_asks_for_no_java_where_spark_is_elsewhere(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SPARK_REMOTE = "sc://spark.example.org:15002"
    monkeypatch.setenv("PATH", "/nowhere")
    assert ids(checks.check_java()) == []


def test_it_knows_the_file_system_of_a_folder(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\nfiler:/x /srv nfs4 rw 0 0\n/dev/sdb1 /srv/local xfs rw 0 0\n")
    found = [
        checks.file_system_of(Path(folder), mounts) for folder in ("/usr", "/srv/tide", "/srv/local/var")
    ]
    assert found == ["ext4", "nfs4", "xfs"]
    assert checks.file_system_of(tmp_path, tmp_path / "none") == ""


def test_it_warns_of_sqlite_on_a_network_disk(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(checks, "file_system_of", lambda folder, mounts: "nfs4")
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.sqlite3")
    assert ids(checks.check_data_folder()) == ["tidemark.W003"]


def test_static_root_without_its_list_of_files_is_refused(settings: Settings, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)
    assert ids(checks.check_static_root()) == ["tidemark.E015"]
    (tmp_path / "staticfiles.json").write_text("{}")
    assert ids(checks.check_static_root()) == []
