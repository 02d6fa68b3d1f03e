"""`manage.py token`."""

import io
import json

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from console.access import services

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("token", *words, stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def admin() -> User:
    return services.ensure_first_person()


def test_it_prints_a_key_that_works() -> None:
    key = run("create", "ci", "--scope", "RESET", "--cluster", "staging").strip()
    token = services.authenticate_token(key).token
    assert (token.name, token.scopes, token.cluster_pattern, token.expires_at) == (
        "ci",
        ["RESET"],
        "staging",
        None,
    )


def test_it_only_looks_without_scopes() -> None:
    made = json.loads(run("create", "--days", "30", "--format", "json"))
    assert (made["scopes"], made["owner"], made["state"]) == (["VIEW"], "admin", "active")
    assert made["expires_at"] is not None
    assert services.authenticate_token(made["key"]).username == "admin"


def test_it_lists_and_revokes() -> None:
    key = run("create", "ci").strip()
    assert json.loads(run("list", "--format", "json"))[0]["prefix"] == key[:12]
    assert run("revoke", key[:12]) == f"{key[:12]} revoked\n"
    (line,) = run("list").splitlines()
    assert line.split()[:3] == [key[:12], "revoked", "admin"]
    assert key not in line


def test_it_says_what_is_wrong() -> None:
    with pytest.raises(CommandError, match="The user zoe"):
        run("create", "--user", "zoe")
    with pytest.raises(CommandError, match="There is no active token tm_nothing"):
        run("revoke", "tm_nothing")
    with pytest.raises(CommandError, match="--days is 1 or more"):
        run("create", "--days", "0")
