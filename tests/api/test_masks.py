"""Masked fields on a real brokerd: a reader without the right gets the value in no way that we could think of."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from console.access import services as access_services
from console.access.models import AuditEvent, MaskRule, Role
from console.brokers.mqadmin import Message, close_admins
from console.deadletter import survey
from console.deadletter.models import DeadLetterSurvey
from console.message.models import SavedSearch
from console.message.search.message_search import source_of
from console.message.search.query import Query
from console.message.search.tail import Tail
from console.operation.job import runner
from tests.api.conftest import problem
from tests.console.deadletter.letters import DLQ, GROUP, group_with_topics
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("values of a broker's messages; what is stored has tests of its own"),
]

CARD, PIN = "4111-SECRET-1111", "SECRET-77"
BODY = {"n": 1, "card": {"number": CARD, "kind": "visa"}}
API = "/api/v1/clusters/test"
MESSAGES = f"{API}/topics/orders/messages"


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    cluster = LiveCluster(brokerd).register()
    group_with_topics(cluster)
    twice = b'{"card": {"number": "%s"}, "card": {"kind": "visa"}}' % CARD.encode()
    bodies = [json.dumps(BODY).encode(), f"paid with {CARD}".encode(), twice]
    bodies += [gzip.compress(bodies[0]), json.dumps([{"card": BODY["card"]}]).encode("utf-16")]
    cluster.send("orders", 0, bodies, pin=PIN, KEYS="k1", UNIQ_KEY="7F0000010000000000000000000000A1")
    letter = {
        "RETRY_TOPIC": "orders",
        "pin": PIN,
        "KEYS": "k1",
        "UNIQ_KEY": "7F0000010000000000000000000000B1",
    }
    cluster.admin.send_many(cluster.addr, [(Message(DLQ, bodies[0], letter), 0)])
    MaskRule.objects.create(topic_pattern="ord*", where="body", name="$..card.number")
    MaskRule.objects.create(topic_pattern="orders", where="property", name="pin")
    MaskRule.objects.create(cluster_pattern="other", topic_pattern="*", where="body", name="$.n")
    yield cluster
    close_admins()


def person(name: str, role: str, **kwargs: Any) -> User:
    access_services.ensure_first_person()
    user = User.objects.create_user(name)
    access_services.grant(role=role, user=user, **kwargs)
    return user


@pytest.fixture
def erin(live: LiveCluster) -> User:
    """May do everything with messages but see what is masked."""
    access_services.ensure_first_person()
    Role.objects.create(name="all-but", verbs=["VIEW", "SEND", "REPLAY", "RESET", "CONFIGURE", "REPORT"])
    return person("erin", "all-but")


def text_of(answer: Any) -> str:
    if not answer.streaming:
        return str(answer.content.decode())
    pieces: Any = answer.streaming_content

    async def joined() -> bytes:
        found: AsyncIterator[bytes] = pieces
        return b"".join([piece async for piece in found])

    return (asyncio.run(joined()) if hasattr(pieces, "__anext__") else b"".join(pieces)).decode(
        errors="replace"
    )


def test_no_answer_has_the_value(live: LiveCluster, erin: User, client_of: Callable[..., APIClient]) -> None:
    script, browser = client_of(erin), Client()
    browser.force_login(erin)
    at = f"{live.broker_name}:0:"
    page, send = "/c/test/messages", "/c/test/messages/send?topic=orders&at="
    first = "7F0000010000000000000000000000A1"
    addresses = [
        MESSAGES,
        f"{MESSAGES}?key=k1",
        f"{MESSAGES}/stream",
        f"{MESSAGES}/export",
        f"{MESSAGES}/export?format=csv",
        f"{MESSAGES}/{first}",
        f"{API}/topics/{DLQ}/messages",
        f"{API}/dead-letters/{GROUP}",
        *(
            f"{MESSAGES}/{first}?at={at}{n}&as={form}"
            for n in range(5)
            for form in ("auto", "hex", "text", "base64")
        ),
        f"{page}?topic=orders",
        f"{page}?topic=orders&read=key&key=k1",
        f"{page}?topic=orders&read=unique&id={first}",
        f"{page}/export?topic=orders&format=ndjson",
        f"/c/test/messages/{first}?topic=orders&at={at}0",
        f"/c/test/messages/{first}?topic=orders&at={at}1&part=peek",
        f"{page}/compare?m=orders:{at}0&m=orders:{at}1",
        f"/c/test/dead-letters/{GROUP}",
        f"/c/test/dead-letters/{GROUP}/export?format=ndjson",
        *(f"{send}{at}{n}" for n in range(3)),
    ]
    leaks, read = {}, 0
    hexed = CARD.encode().hex()[:8]
    for address in addresses:
        client: Any = script if address.startswith("/api") else browser
        answer = client.get(address)
        text = text_of(answer)
        read += answer.status_code == 200
        if "SECRET" in text or "NDExMS" in text or hexed in text.replace(" ", ""):
            leaks[address] = text[:300]
        if answer.status_code != 200 and "/send?" not in address:
            leaks[address] = f"{answer.status_code} {text[-300:]}"
    assert leaks == {} and read >= len(addresses) - 3
    shown = script.get(f"{MESSAGES}/{first}?at={at}0").json()
    assert shown["is_masked"] and shown["properties"]["pin"] == "•••"
    assert json.loads(shown["body_text"]) == {"n": 1, "card": {"number": "•••", "kind": "visa"}}


@pytest.mark.parametrize(
    "query",
    [
        {"find": CARD},
        {"find": "SECRET"},
        {"find_in": "json", "find": f'$.card.number == "{CARD}"'},
        {"find_in": "property", "find": f"pin == {PIN}"},
    ],
)
def test_no_filter_finds_the_value(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient], query: dict[str, str]
) -> None:
    client = client_of(erin)
    assert client.get(MESSAGES, query).json()["results"] == []
    assert '"message"' not in text_of(client.get(f"{MESSAGES}/stream", query))
    assert client.get(MESSAGES, {"find": "visa"}).json()["results"] != []


def test_comparisons_do_not_narrow_it_down(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient]
) -> None:
    def hits(find_in: str, find: str) -> int:
        return len(client.get(MESSAGES, {"find_in": find_in, "find": find}).json()["results"])

    client = client_of(erin)
    assert len({hits("json", f'$.card.number > "{text}"') for text in ("3", "4111", "5")}) == 1
    assert len({hits("property", f'pin < "{text}"') for text in ("A", "SECRET-77", "T")}) == 1


@pytest.mark.parametrize("sql", [f"pin = '{PIN}'", "PIN IS NOT NULL", "pin > 'S' AND n = 1"])
def test_a_broker_filters_by_no_masked_property(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient], sql: str
) -> None:
    client = client_of(erin)
    assert "is masked" in problem(client.get(MESSAGES, {"sql": sql}), 400, "invalid")["detail"]
    assert "is masked" in problem(client.get(f"{MESSAGES}/tail", {"sql": sql}), 400, "invalid")["detail"]


def test_a_tail_shows_arrivals_without_it(live: LiveCluster, erin: User) -> None:
    tail = Tail(source_of("test", "orders"), Query("orders"))
    live.send("orders", 0, [json.dumps(BODY).encode()], pin=PIN)
    (hit,) = tail.step().hits
    assert b"SECRET" not in hit.record.body and hit.record.properties["pin"] == "•••"


TYPED = {
    "topic": "orders",
    "body": json.dumps(BODY),
    "properties": {"pin": PIN, "shop": "4"},
    "queue": {"broker_name": "broker-a", "queue_id": 0},
}


@pytest.mark.parametrize(
    "typed",
    [
        {},
        {"body": f"paid with {CARD}"},
        {"body": None, "body_base64": base64.b64encode(json.dumps(BODY).encode()).decode()},
        {"body": None, "body_base64": base64.b64encode(gzip.compress(json.dumps(BODY).encode())).decode()},
    ],
)
def test_a_typed_message_is_masked_in_its_plan(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient], typed: dict[str, Any]
) -> None:
    """Who sent it typed the value; who looks at the plan without the right does not get it."""
    given = {name: value for name, value in (TYPED | typed).items() if value is not None}
    given["queue"] = {"broker_name": live.broker_name, "queue_id": 0}
    admin = User.objects.create_superuser("dora")
    made = client_of(admin).post(f"{API}/send-plans", given, format="json").json()
    assert PIN in json.dumps(made)
    script, browser = client_of(erin), Client()
    browser.force_login(erin)
    page = f"/c/test/plans/{made['id']}"
    for client, address in (
        (browser, page),
        (script, f"/api/v1/plans/{made['id']}"),
        (script, f"{API}/plans"),
        (script, f"{API}/plans?format=csv"),
    ):
        answer = client.get(address)
        text = text_of(answer)
        assert answer.status_code == 200, address
        assert "SECRET" not in text and "NDExMS" not in text and "H4sI" not in text, address
    shown = script.get(f"/api/v1/plans/{made['id']}").json()
    assert shown["params"]["properties"] == {"pin": "•••", "shop": "4"}
    job = script.post(f"/api/v1/plans/{made['id']}/apply").json()
    runner.run(job["id"], "worker-1")
    assert "SECRET" not in text_of(browser.get(f"/c/test/operations/{job['id']}"))
    sent = live.admin.pull(live.addr, "orders", 0, 5).messages[-1]
    assert sent.properties["pin"] == PIN, "what is hidden is sent all the same"


def test_a_saved_search_finds_nothing_by_the_value(live: LiveCluster, erin: User) -> None:
    """It is its owner's words: run again, or by another, it is a search like any other."""
    browser = Client()
    browser.force_login(erin)
    address = f"topic=orders&find={CARD}"
    saved = browser.post("/c/test/messages/save", {"name": "cards", "address": address})
    assert saved.status_code in (200, 302)
    kept = SavedSearch.objects.get(name="cards")
    found = text_of(browser.get(f"/c/test/messages?{kept.address}"))
    assert "•••" not in found, "a row would say that the value is in it"
    other = Client()
    other.force_login(person("fay", "viewer"))
    assert "cards" not in text_of(other.get("/c/test/messages?topic=orders"))
    refused = f"topic=orders&sql=pin+%3D+%27{PIN}%27"
    browser.post("/c/test/messages/save", {"name": "pins", "address": refused})
    kept = SavedSearch.objects.get(name="pins")
    assert "is masked" in text_of(browser.get(f"/c/test/messages?{kept.address}"))


@pytest.mark.parametrize("wanted", [{"body": "SECRET"}, {"property": f"pin={PIN}"}, {"cause": "SECRET"}])
def test_no_replay_counts_letters_by_the_value(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient], settings: Any, wanted: dict[str, str]
) -> None:
    settings.DEAD_LETTER_CAUSE_PROPERTIES = ["pin"]
    client = client_of(erin)
    assert client.get(f"{API}/dead-letters/{GROUP}", wanted).json()["rows"] == []
    body = {"group": GROUP, "target": "failed_group", "filter": wanted}
    answer = client.post(f"{API}/replay-plans", body, format="json")
    assert answer.json().get("messages", 0) == 0  # the filter itself is shown: it is what was typed
    survey.survey_cluster("test", now_ms=1)
    assert "SECRET" not in str(list(DeadLetterSurvey.objects.values()))


def test_a_replayed_copy_is_masked_where_it_lies(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient]
) -> None:
    live.create_topic("elsewhere", queues=1)
    client = client_of(erin)
    body = {"group": GROUP, "target": "other_topic", "topic": "elsewhere"}
    plan = client.post(f"{API}/replay-plans", body, format="json").json()
    job = client.post(f"/api/v1/plans/{plan['id']}/apply").json()
    runner.run(job["id"], "worker-1")
    (copy,) = client.get(f"{API}/topics/elsewhere/messages").json()["results"]
    assert copy["properties"]["TIDEMARK_ORIGINAL_TOPIC"] == "orders"
    assert "SECRET" not in json.dumps(copy)
    # The consumers of the copy get the whole message.
    found = live.admin.pull(live.addr, "elsewhere", 0, 0, 1).messages[0]
    assert json.loads(found.body) == BODY and found.properties["pin"] == PIN


def test_no_copy_is_made_of_it_by_hand(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient]
) -> None:
    source = {"topic": "orders", "broker_name": live.broker_name, "queue_id": 0, "queue_offset": 0}
    live.create_topic("elsewhere", queues=1)
    for topic in ("orders", "elsewhere"):
        body = {"topic": topic, "copy_of": source, "keep_body": True}
        refused = client_of(erin).post(f"{API}/send-plans", body, format="json")
        assert "masked fields" in problem(refused, 422, "plan_rejected")["detail"]


def test_showing_needs_the_right_and_is_audited(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient]
) -> None:
    first = "7F0000010000000000000000000000A1"
    address, at = f"{MESSAGES}/{first}", f"{live.broker_name}:0:0"
    problem(client_of(erin).get(address, {"at": at, "unmasked": "true"}), 403, "not_permitted")
    browser = Client()
    browser.force_login(erin)
    page = f"/c/test/messages/{first}?topic=orders&at={at}"
    assert browser.post(page).status_code == 403
    assert not AuditEvent.objects.filter(verb="show masked fields").exists()
    Role.objects.create(name="unmask", verbs=["UNMASK"])
    ivan = person("ivan", "unmask", name_pattern="orders")
    scoped = client_of(ivan, "VIEW").get(address, {"at": at, "unmasked": "true"})
    problem(scoped, 403, "not_permitted")
    shown = client_of(ivan, "UNMASK").get(address, {"at": at, "unmasked": "true"}).json()
    assert CARD in shown["body_text"] and shown["properties"]["pin"] == PIN and not shown["is_masked"]
    browser.force_login(ivan)
    assert CARD not in browser.get(page).content.decode()
    assert CARD in browser.post(page).content.decode()
    events = AuditEvent.objects.filter(verb="show masked fields")
    assert [event.actor for event in events] == ["ivan", "ivan"]
    assert events[0].cluster == "test" and "orders" in events[0].subject


def test_other_topics_are_shown_as_they_are(
    live: LiveCluster, erin: User, client_of: Callable[..., APIClient]
) -> None:
    live.create_topic("plain", queues=1)
    live.send("plain", 0, [json.dumps(BODY).encode()], pin=PIN)
    (row,) = client_of(erin).get(f"{API}/topics/plain/messages").json()["results"]
    assert CARD in row["body_text"] and row["properties"]["pin"] == PIN and not row["is_masked"]
