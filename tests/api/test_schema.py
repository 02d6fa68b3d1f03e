"""The OpenAPI document is valid, complete and true, and its page obeys the content policy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from django.contrib.auth.models import User
from drf_spectacular.drainage import GENERATOR_STATS, reset_generator_stats
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from hypothesis import HealthCheck, given, settings
from rest_framework.test import APIClient

from api.rest.throttling import ScopeThrottle
from api.urls import RESOURCES
from console.access import services as access_services
from console.cluster.models import Cluster
from tests.api.conftest import problem

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("the document, and the way of every route, whose own tests run on both"),
]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


def test_it_is_valid(document: dict[str, Any]) -> None:
    validate_schema(document)


def test_it_is_made_without_a_warning() -> None:
    reset_generator_stats()
    SchemaGenerator().get_schema(request=None, public=True)
    assert not GENERATOR_STATS


def test_it_names_every_operation_once(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names)) >= 35
    assert len(document["paths"]) == sum(len(module.urlpatterns) for module in RESOURCES)


def test_it_declares_refusals_and_security(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert {"400", "401", "403", "404", "429"} <= set(operation["responses"]), (method, path)
            assert {"token": []} in operation["security"], (method, path)


def test_it_describes_every_operation_to_callers(document: dict[str, Any]) -> None:
    operations = [each for path in document["paths"].values() for each in path.values()]
    texts = {each["operationId"]: each.get("description", "") for each in operations}
    assert {name for name, text in texts.items() if not text or text.startswith("Base of")} == set()


def test_every_list_has_pages(document: dict[str, Any]) -> None:
    lists = {}
    for path, methods in document["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        assert schema.get("type") != "array", path
        body = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
        if body.get("properties", {}).get("results"):
            lists[path] = {each["name"] for each in methods["get"]["parameters"]}
    assert len(lists) >= 24
    searches = {path for path in lists if "limit" in lists[path] and "cursor" in lists[path]}
    assert {path for path in lists if not {"page", "per_page"} <= lists[path]} == searches


def test_it_is_served_to_people_who_signed_in(alice: User) -> None:
    problem(APIClient().get("/api/schema"), 401, "not_authenticated")
    client = APIClient()
    client.force_login(alice)
    answer = client.get("/api/schema")
    assert answer.status_code == 200 and answer.json()["info"]["title"] == "Tidemark"


def test_it_shows_swagger_ui_without_inline_code(alice: User) -> None:
    client = APIClient()
    client.force_login(alice)
    assert APIClient().get("/api/docs")["Location"] == "/sign-in?next=/api/docs"
    page = client.get("/api/docs")
    html = page.content.decode()
    assert page.status_code == 200 and "script-src 'self'" in page["Content-Security-Policy"]
    assert not re.search(r"<style|style=|<script(?![^>]*src=)|https?://", html)
    (script,) = [url for url in re.findall(r'<script src="([^"]+)"', html) if "script=" in url]
    source = client.get(script)
    assert source["Content-Type"] == "application/javascript" and "SwaggerUIBundle" in source.content.decode()


def test_it_answers_generated_calls_as_documented(
    rows: Cluster, admin: User, monkeypatch: pytest.MonkeyPatch, document: dict[str, Any]
) -> None:
    """Schemathesis calls every operation; the cluster's name server is away, so nothing is really changed.

    A few calls each: `tests/hard/fuzz_api.py` makes many, and looks at more than the status.
    """
    for scope in ScopeThrottle.RATES:
        monkeypatch.setitem(ScopeThrottle.RATES, scope, 1_000_000)
    _, key = access_services.create_token(owner=admin, name="fuzz", scopes=["ADMIN"])
    client = APIClient(raise_request_exception=True)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    failures: list[str] = []
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        check = _checker(operation, client, failures)
        check()
    assert failures == []


def _checker(operation: Any, client: APIClient, failures: list[str]) -> Callable[[], None]:
    """A Hypothesis test of one operation, through Django's test client: no server, the test's own database."""

    @settings(
        max_examples=3,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        path = case.formatted_path.replace("{cluster}", "local")
        has_body = isinstance(case.body, dict | list | str | int | float | bool) or case.body is None
        response = client.generic(
            case.method,
            "/" + path.lstrip("/"),
            data=json.dumps(case.body) if has_body else b"",
            content_type="application/json",
            QUERY_STRING=urlencode(case.query or {}, doseq=True),
        )
        declared = operation.definition.raw["responses"]
        if str(response.status_code) not in declared:
            failures.append(f"{case.method} {path}: {response.status_code} {response.content[:200]!r}")

    return call
