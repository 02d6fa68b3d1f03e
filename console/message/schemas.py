"""Protobuf schemas of topics: checked on upload, kept per cluster and topic, used to decode bodies."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.utils import timezone
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from console.access.services import record_audit
from console.brokers.body_format import ProtobufDecoder
from console.message.models import ProtobufSchema
from console.text import Names, Text

DESCRIPTOR_SET_BYTES_MAX = 1024 * 1024  # thousands of messages; googleapis itself has some MB
TYPES_SUGGESTED = 20
CLASSES_KEPT = 64  # message classes kept in memory, one per schema in use


class SchemaRefused(ValueError):
    """The upload is no valid schema. ``field`` is the part at fault."""

    def __init__(self, reason: str, field: str) -> None:
        super().__init__(reason)
        self.field = field


def schema_of(cluster: str, topic: str) -> ProtobufSchema | None:
    """Return the topic's schema, None without one."""
    return ProtobufSchema.objects.filter(cluster=cluster, topic=topic).first()


def message_types(descriptor_set: bytes) -> list[str]:
    """Return the full names of all messages in a descriptor set, sorted. Raises SchemaRefused."""
    files = _files(descriptor_set)
    names: list[str] = []

    def collect(prefix: str, messages: Any) -> None:
        for each in messages:
            if not each.options.map_entry:
                names.append(f"{prefix}{each.name}")
                collect(f"{prefix}{each.name}.", each.nested_type)

    for file in files.file:
        collect(f"{file.package}." if file.package else "", file.message_type)
    return sorted(names)


def _files(descriptor_set: bytes) -> descriptor_pb2.FileDescriptorSet:
    if len(descriptor_set) > DESCRIPTOR_SET_BYTES_MAX:
        raise SchemaRefused(
            Text(
                "The descriptor set has %(number)s bytes; at most %(most)s.",
                number=len(descriptor_set),
                most=DESCRIPTOR_SET_BYTES_MAX,
            ),
            "descriptor_set",
        )
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
    except DecodeError as error:
        raise SchemaRefused(
            Text(
                "This is not a descriptor set. Create one with protoc --include_imports "
                "--descriptor_set_out=orders.pb orders.proto."
            ),
            "descriptor_set",
        ) from error
    if not files.file:
        raise SchemaRefused(Text("The descriptor set contains no file."), "descriptor_set")
    return files


@lru_cache(maxsize=CLASSES_KEPT)
def _message_class(descriptor_set: bytes, message_type: str) -> Any:
    """Return the class that parses the messages. Raises SchemaRefused."""
    pool = descriptor_pool.DescriptorPool()
    waiting = list(_files(descriptor_set).file)
    while waiting:
        # A set made by hand may list a file before its imports.
        later = []
        problem = ""
        for file in waiting:
            try:
                pool.Add(file)
                pool.FindFileByName(file.name)
            except (TypeError, KeyError, ValueError) as error:
                problem = str(error)
                later.append(file)
        if len(later) == len(waiting):
            raise SchemaRefused(
                Text(
                    "The descriptor set is not complete (was it made with --include_imports?): %(why)s",
                    why=problem[:400],
                ),
                "descriptor_set",
            )
        waiting = later
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message_type))
    except KeyError as error:
        known = message_types(descriptor_set)
        raise SchemaRefused(
            Text(
                "The descriptor set has no message %(type)s. It has: %(names)s.",
                type=message_type or "(empty)",
                names=Names(known[:TYPES_SUGGESTED]) or "none",
            ),
            "message_type",
        ) from error


def decoder(schema: ProtobufSchema) -> ProtobufDecoder:
    """Return a decoder: bytes → indented JSON with the schema's field names; it raises ValueError."""

    def decode(body: bytes) -> str:
        try:
            kind = _message_class(bytes(schema.descriptor_set), schema.message_type)
            found = kind.FromString(body)
            text: str = json_format.MessageToJson(
                found, preserving_proto_field_name=True, ensure_ascii=False, indent=2
            )
        except (DecodeError, json_format.Error, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"not a {schema.message_type}: {error}") from error
        return text

    return decode


def decoder_of(cluster: str, topic: str) -> ProtobufDecoder | None:
    """Return the decoder of a topic by name; None without a schema."""
    schema = schema_of(cluster, topic)
    return None if schema is None else decoder(schema)


def save_schema(
    *, cluster: str, topic: str, message_type: str, descriptor_set: bytes, actor: Any, remote_addr: str = ""
) -> ProtobufSchema:
    """Check a descriptor set and save it as the topic's schema. Raises SchemaRefused.

    The caller has checked CONFIGURE.
    """
    message_type = message_type.strip().lstrip(".")
    _message_class(descriptor_set, message_type)
    digest = hashlib.sha256(descriptor_set).hexdigest()
    with transaction.atomic():
        before = schema_of(cluster, topic)
        saved, _ = ProtobufSchema.objects.update_or_create(
            cluster=cluster,
            topic=topic,
            defaults={
                "message_type": message_type,
                "descriptor_set": descriptor_set,
                "sha256": digest,
                "uploaded_by": actor.get_username(),
                "uploaded_at": timezone.now(),
            },
        )
        record_audit(
            actor=actor,
            verb="set body schema",
            cluster=cluster,
            subject=topic,
            before=None if before is None else _audited(before),
            after=_audited(saved),
            remote_addr=remote_addr,
        )
    return saved


def delete_schema(*, cluster: str, topic: str, actor: Any, remote_addr: str = "") -> bool:
    """Delete the topic's schema; return False if there was none. The caller has checked CONFIGURE."""
    with transaction.atomic():
        before = schema_of(cluster, topic)
        if before is None:
            return False
        before.delete()
        record_audit(
            actor=actor,
            verb="remove body schema",
            cluster=cluster,
            subject=topic,
            before=_audited(before),
            remote_addr=remote_addr,
        )
    return True


def _audited(schema: ProtobufSchema) -> dict[str, str | int]:
    return {
        "message_type": schema.message_type,
        "sha256": schema.sha256,
        "bytes": len(bytes(schema.descriptor_set)),
    }
