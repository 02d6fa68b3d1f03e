"""Protobuf schemas of topics: what is refused on upload, and how bodies read with one."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from google.protobuf import descriptor_pb2

from console.access.models import AuditEvent
from console.brokers.body_format import render_body
from console.lag.rows.queue_row import TopicQueueRow
from console.message import schemas, services
from console.message.search.query import Query
from tests.console.operation.live_cluster import LiveCluster
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

# OrderPaid{order_id: 150, city: "杭州"} of the schema below, by hand: field 1 varint, field 2 text of 6 bytes.
BODY = bytes.fromhex("08 96 01 12 06") + "杭州".encode()


def descriptor_set(*, imports: bool = True, cut: int | None = None) -> bytes:
    """acme/order.proto, which needs acme/city.proto; the importing file stands first on purpose."""
    found = descriptor_pb2.FileDescriptorSet()
    order = found.file.add(
        name="acme/order.proto", package="acme", dependency=["acme/city.proto"], syntax="proto3"
    )
    message = order.message_type.add(name="OrderPaid")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="order_id", number=1, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="city", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.field.add(
        name="where", number=3, type=kinds.TYPE_MESSAGE, type_name=".acme.City", label=kinds.LABEL_OPTIONAL
    )
    message.nested_type.add(name="Line")
    if imports:
        city = found.file.add(name="acme/city.proto", package="acme", syntax="proto3")
        city.message_type.add(name="City")
    return found.SerializeToString()[:cut]


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_user("boss", is_superuser=True)


def test_it_reads_bodies_with_the_topics_schema(live: LiveCluster, boss: User) -> None:
    live.create_topic("orders", queues=1)
    live.send("orders", 0, [BODY, b"\xff\xff"])
    schemas.save_schema(
        cluster="test",
        topic="orders",
        message_type=".acme.OrderPaid",
        descriptor_set=descriptor_set(),
        actor=boss,
    )
    rows = services.find("test", Query("orders")).rows
    assert [row.body_format for row in rows] == ["hex", "protobuf"]
    listed = signed_in().get("/c/test/messages?topic=orders").content.decode()
    assert '"order_id": 150' in listed
    hit, bad = (services.record_at("test", "orders", live.broker_name, 0, offset) for offset in (0, 1))
    assert hit is not None and bad is not None
    view = services.shown("test", hit)
    assert (view.body_format, json.loads(view.body_text)) == ("protobuf", {"order_id": 150, "city": "杭州"})
    assert services.shown("test", hit, body_format="hex").body_text.startswith("00000000  08 96 01")
    broken = services.shown("test", bad)
    assert broken.body_format == "hex" and "not a acme.OrderPaid" in broken.body_problem
    event = AuditEvent.objects.get(verb="set body schema")
    assert event.after["message_type"] == "acme.OrderPaid" and event.subject == "orders"


@pytest.mark.parametrize(
    ("data", "message_type", "field", "words"),
    [
        (b"nonsense", "acme.OrderPaid", "descriptor_set", "This is not a descriptor set"),
        (b"", "acme.OrderPaid", "descriptor_set", "contains no file"),
        (descriptor_set(imports=False), "acme.OrderPaid", "descriptor_set", "made with --include_imports"),
        (
            descriptor_set(),
            "acme.Nothing",
            "message_type",
            "It has: acme.City, acme.OrderPaid, acme.OrderPaid.Line",
        ),
        (descriptor_set(), "", "message_type", "has no message (empty)"),
        (b"x" * (schemas.DESCRIPTOR_SET_BYTES_MAX + 1), "x", "descriptor_set", "at most 1,048,576"),
    ],
)
def test_it_refuses_what_is_no_schema(
    boss: User, data: bytes, message_type: str, field: str, words: str
) -> None:
    with pytest.raises(schemas.SchemaRefused) as refusal:
        schemas.save_schema(
            cluster="test", topic="orders", message_type=message_type, descriptor_set=data, actor=boss
        )
    assert refusal.value.field == field and words in str(refusal.value)
    assert schemas.schema_of("test", "orders") is None


def test_a_page_uploads_and_removes_it() -> None:
    sample_rows.cluster("test")
    browser: Client = signed_in("maintainer", verbs=("CONFIGURE",), cluster="test")
    address = "/c/test/messages/schema?topic=orders"
    upload = {
        "topic": "orders",
        "message_type": "acme.OrderPaid",
        "descriptor_set": SimpleUploadedFile("orders.pb", b"nonsense"),
    }
    refused = browser.post(address, upload)
    assert refused.status_code == 422 and "This is not a descriptor set" in refused.content.decode()
    upload["descriptor_set"] = SimpleUploadedFile("orders.pb", descriptor_set())
    assert browser.post(address, upload)["Location"] == address
    assert "acme.OrderPaid" in browser.get(address).content.decode()
    browser.post(address, {"topic": "orders", "remove": "1"})
    assert schemas.schema_of("test", "orders") is None
    assert AuditEvent.objects.filter(verb="remove body schema").count() == 1


def test_the_page_shows_how_the_newest_message_reads(live: LiveCluster) -> None:
    live.create_topic("orders", queues=1)
    live.send("orders", 0, [b"{}", b'{"no": 4711}'])
    queue = TopicQueueRow(
        topic="orders", broker_name=live.broker_name, queue_id=0, max_offset=2, last_write_ms=1
    )
    sample_queues.save("test", queue)
    address = "/c/test/messages/schema?topic=orders"
    text = signed_in().get(address).content.decode()
    assert "12 bytes, JSON" in text and "4711" in text and f"{live.broker_name} · 0 @" in text


def test_only_who_may_configure_uploads() -> None:
    sample_rows.cluster("test")
    viewer = signed_in("viewer", verbs=("VIEW",), cluster="test")
    assert viewer.get("/c/test/messages/schema?topic=orders").status_code == 403
    assert viewer.post("/c/test/messages/schema", {"topic": "orders", "remove": "1"}).status_code == 403


def test_a_body_without_a_schema_is_never_read_as_protobuf() -> None:
    assert render_body(BODY, 100).format == "hex"
