"""Queues in REST: a field for each column of the last round, so that a figure is added in one place."""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import Any, ClassVar, get_args

from rest_framework import serializers

from console.lag.rows.queue_row import QueueRow, TopicQueueRow, kinds_of
from console.text import Text

FIELDS: dict[type, type[serializers.Field[Any, Any, Any, Any]]] = {
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    str: serializers.CharField,
    Text: serializers.CharField,
}


class _RowSerializer(serializers.Serializer[Any]):
    """Fields of `row` but `named`, which are in the address."""

    row: ClassVar[type[QueueRow] | type[TopicQueueRow]]
    named: ClassVar[str]

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; those that the row allows to be null are unknown then."""
        kinds = kinds_of(self.row)
        return {
            one.name: FIELDS[kinds[one.name]](
                allow_null=NoneType in get_args(one.type), help_text=one.metadata.get("help_text")
            )
            for one in fields(self.row)
            if one.name != self.named
        }


class GroupQueueSerializer(_RowSerializer):
    """``committed_offset`` null: never committed."""

    row = QueueRow
    named = "group"


class TopicQueueSerializer(_RowSerializer):
    row = TopicQueueRow
    named = "topic"
