"""The format of a topic's bodies, where it was uploaded."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class ProtobufSchema(models.Model):
    """A descriptor set (`protoc --include_imports --descriptor_set_out`) and which of its messages a topic carries."""

    cluster = models.CharField(max_length=64)
    topic = models.CharField(max_length=255)
    message_type = models.CharField(max_length=255, help_text="full name: acme.orders.OrderPaid")
    descriptor_set = models.BinaryField(help_text="a serialized FileDescriptorSet")
    sha256 = models.CharField(max_length=64)
    uploaded_by = models.CharField(max_length=150)
    uploaded_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "topic"], name="one_schema_per_topic")
        ]

    def __str__(self) -> str:
        return f"{self.cluster} {self.topic}: {self.message_type}"
