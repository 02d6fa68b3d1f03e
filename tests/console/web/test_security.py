"""Headers of every answer, and that a page asks who you are unless it says otherwise."""

import json

import pytest
from django.test import Client

from tests.support import sample_rows


@pytest.mark.django_db
def test_it_forbids_foreign_and_inline_code(client: Client) -> None:
    answer = client.get("/sign-in")
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert (policy["default-src"], policy["frame-ancestors"], policy["base-uri"]) == (
        "'none'",
        "'none'",
        "'none'",
    )
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


@pytest.mark.django_db
def test_pages_name_the_rules_of_what_is_fetched_ahead(client: Client) -> None:
    address = client.get("/sign-in").headers["Speculation-Rules"].strip('"')
    rules = client.get(address)
    assert rules.headers["Content-Type"] == "application/speculationrules+json"
    (rule,) = json.loads(b"".join(rules.streaming_content))["prefetch"]
    assert rule["eagerness"] == "moderate"
    assert "Speculation-Rules" not in rules.headers


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/clusters", "/c/local/", "/c/local/groups", "/password", "/activity"])
def test_it_asks_strangers_to_sign_in(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/sign-in?next={path}")


@pytest.mark.django_db
def test_it_asks_strangers_at_the_admin_too(client: Client) -> None:
    assert client.get("/admin/").status_code == 302


@pytest.mark.django_db
def test_it_refuses_a_form_from_elsewhere() -> None:
    answer = Client(enforce_csrf_checks=True).post("/sign-in", {"username": "a", "password": "b"})
    assert answer.status_code == 403


@pytest.mark.django_db
@pytest.mark.parametrize(
    "address",
    [
        "/c/local/groups/a%00b",
        "/c/local/groups?q=a%00b",
        "/api/v1/clusters/%00",
        f"/c/local/groups/{256 * 'x'}",
        f"/api/v1/clusters/local/groups/{256 * 'x'}/slo",
    ],
)
def test_it_takes_no_address_that_no_name_can_have(admin_client: Client, address: str) -> None:
    answer = admin_client.get(address)
    assert answer.status_code == 400
    assert answer.content
    is_problem = answer.headers["Content-Type"] == "application/problem+json"
    assert is_problem == address.startswith("/api/")
    assert "default-src" in answer.headers["Content-Security-Policy"]
    if not is_problem:
        assert "This request is not valid" in answer.content.decode()


@pytest.mark.django_db
def test_a_refused_address_is_a_page_in_the_language_of_its_reader(client: Client) -> None:
    client.cookies["tidemark_language"] = "zh-hans"
    page = client.get("/c/local/groups?q=a%00b").content.decode()
    assert '<html lang="zh-hans"' in page and "零字节" in page and "zero byte" not in page


@pytest.mark.django_db(databases=["default", "metrics"])
def test_an_address_of_forms_is_a_page_that_leads_back(admin_client: Client) -> None:
    form = "http://testserver/c/local/plans/op-1"
    answer = admin_client.get("/c/local/plans/op-1/apply", headers={"referer": form})
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    page = answer.content.decode()
    assert "This address only receives forms" in page and f'href="{form}"' in page
    elsewhere = admin_client.get("/c/local/plans/op-1/apply", headers={"referer": "http://example.com/x"})
    assert "example.com" not in elsewhere.content.decode()


@pytest.mark.django_db
def test_signing_in_again_leads_to_the_page_of_the_form(client: Client) -> None:
    form = "http://testserver/c/local/plans/op-1"
    answer = client.post("/c/local/plans/op-1/apply", headers={"referer": form})
    assert answer.headers["Location"] == "/sign-in?next=http%3A//testserver/c/local/plans/op-1"
    own = "/c/local/groups/billing/offsets?topic=orders"
    answer = client.post(own, headers={"referer": f"http://testserver{own}"})
    assert answer.headers["Location"] == "/sign-in?next=/c/local/groups/billing/offsets%3Ftopic%3Dorders"
    for before in ("http://example.com/x", ""):
        answer = client.post("/c/local/plans/op-1/apply", headers={"referer": before})
        assert answer.headers["Location"] == "/sign-in?next=/"


@pytest.mark.django_db(databases=["default", "metrics"])
def test_too_many_parameters_are_a_problem_for_rest_and_a_page_for_browsers(admin_client: Client) -> None:
    sample_rows.sample()
    too_many = "&".join(["page=1"] * 1_001)
    answer = admin_client.get(f"/api/v1/jobs?{too_many}")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["detail"] == "More than 1000 parameters. Send fewer."
    page = admin_client.get(f"/c/local/groups?{too_many}")
    assert page.status_code == 400 and "This request is not valid" in page.content.decode()
