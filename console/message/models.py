"""The format of a topic's bodies, where it was uploaded; searches that people keep."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

SEARCH_NAME_MAX = 80
# Of an address: a long SQL92 filter and a long text fit.
SEARCH_ADDRESS_MAX = 4_000


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


class SavedSearch(models.Model):
    """A search of one person under a name: the query part of the address of its list."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    cluster = models.CharField(max_length=64)
    name = models.CharField(max_length=SEARCH_NAME_MAX)
    address = models.CharField(max_length=SEARCH_ADDRESS_MAX)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "cluster", "name"], name="one_search_per_name")
        ]

    def __str__(self) -> str:
        return self.name
