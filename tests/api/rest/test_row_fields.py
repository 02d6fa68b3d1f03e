"""`?fields=` in every list of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from console.cluster.models import Cluster
from tests.api.conftest import problem

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
GROUPS = "/api/v1/clusters/local/groups"


def test_rows_have_the_requested_fields_only(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient]
) -> None:
    client = client_of(alice)
    page = client.get(f"{GROUPS}?fields=group,lag").json()
    assert page["count"] == 2
    assert page["results"] == [{"group": "billing", "lag": 7}, {"group": "audit", "lag": None}]
    assert client.get(f"{GROUPS}?fields=").json() == client.get(GROUPS).json()
    queues = client.get(f"{GROUPS}/billing/queues?fields=queue_id,lag").json()
    assert queues["results"] == [{"queue_id": 0, "lag": 7}]


@pytest.mark.parametrize("wanted", ["lagg", "group,lagg", "id", "cluster", "results"])
def test_an_unknown_field_is_refused_with_the_names_that_exist(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient], wanted: str
) -> None:
    for address in (GROUPS, f"{GROUPS}?query=nothing-matches"):
        joint = "&" if "?" in address else "?"
        refused = problem(client_of(alice).get(f"{address}{joint}fields={wanted}"), 400, "invalid")
        assert "Rows have " in refused["detail"] and " time_lag_ms" in refused["detail"]


def test_what_is_no_list_has_no_fields(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient]
) -> None:
    refused = problem(client_of(alice).get(f"{GROUPS}/billing?fields=lag"), 400, "invalid")
    assert "There is no such parameter" in refused["detail"]


def test_every_list_documents_its_fields() -> None:
    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    schemas = document["components"]["schemas"]
    without, lists = [], 0
    for path, methods in document["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        if schema.get("type") == "array" or "results" in schema.get("properties", {}):
            lists += 1
            names = {each["name"] for each in methods["get"]["parameters"]}
            without += [] if "fields" in names else [path]
    assert lists > 20 and without == []
