"""The RocketMQ clusters of this console, and the limits of each."""

from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from console.brokers.connection import AccessKeys, Connection, Tls
from console.cluster.sealed import SecretUnreadable, unseal
from console.text import Text

# Used in URLs and Redis subjects: no slash, no space, nothing to quote.
CLUSTER_NAME = r"^[a-z0-9][a-z0-9-]{0,62}$"


UNREADABLE = Text("its keys were stored with another SECRET_KEY and cannot be read: enter them again")


class Cluster(models.Model):
    """One RocketMQ cluster, reached through its name servers.

    ``typed_confirm_messages``: from this many messages on, a change must be confirmed by typing the subject's
    name; ``second_person_messages``: from this many on a second person must approve (None: never).
    """

    name = models.CharField(
        max_length=63,
        unique=True,
        validators=[RegexValidator(CLUSTER_NAME, Text("Lower-case letters, digits and dashes, at most 63."))],
    )
    namesrv_addrs = models.CharField(max_length=1000, help_text="host:port, several separated by semicolons")
    uses_tls = models.BooleanField(default=False)
    # PEM texts. No authorities: those of this system.
    tls_ca = models.TextField(blank=True, default="")
    tls_checks_host_name = models.BooleanField(default=True)
    tls_certificate = models.TextField(blank=True, default="")
    access_key = models.CharField(max_length=255, blank=True, default="")
    # `sealed.seal`; read by `connection` alone.
    tls_key_sealed = models.TextField(blank=True, default="", editable=False)
    secret_key_sealed = models.TextField(blank=True, default="", editable=False)
    security_token_sealed = models.TextField(blank=True, default="", editable=False)
    is_embedded = models.BooleanField(default=False, help_text="the brokerd that `manage.py up` runs")
    # Its figures up to then are generated: no broker has them, and none is read.
    generated_to_ms = models.BigIntegerField(null=True, blank=True, editable=False)
    is_production = models.BooleanField(default=False, help_text="pages carry a colour band")
    typed_confirm_messages = models.PositiveBigIntegerField(default=1000)
    second_person_messages = models.PositiveBigIntegerField(null=True, blank=True)
    poll_interval_s = models.PositiveIntegerField(default=5)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name, verbose_name_plural = gettext_lazy("cluster"), gettext_lazy("clusters")
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["is_embedded"], condition=Q(is_embedded=True), name="one_embedded_cluster"
            ),
            models.CheckConstraint(condition=Q(poll_interval_s__gte=1), name="poll_interval_at_least_1_s"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def connection(self) -> Connection:
        """Return how it is reached, secrets in clear text. Unreadable ones are its fault, which every call then has."""
        try:
            tls = Tls(
                self.tls_ca, self.tls_checks_host_name, self.tls_certificate, unseal(self.tls_key_sealed)
            )
            secret, token = unseal(self.secret_key_sealed), unseal(self.security_token_sealed)
        except SecretUnreadable:
            return Connection(self.namesrv_addrs, cluster=self.name, fault=UNREADABLE)
        return Connection(
            self.namesrv_addrs,
            tls if self.uses_tls else None,
            AccessKeys(self.access_key, secret, token) if self.access_key else None,
            self.name,
        )

    @property
    def is_generated(self) -> bool:
        """Return whether it is generated data without any broker."""
        return self.generated_to_ms is not None

    def until_ms(self, now_ms: int) -> int:
        """Return until when there are figures: now, or the end of what was generated."""
        return now_ms if self.generated_to_ms is None else self.generated_to_ms


class KeptSecret(models.Model):
    """A secret that a plan sets, until its job has; written and read by `kept_secrets` alone."""

    reference = models.CharField(max_length=64, primary_key=True)
    # `sealed.seal`.
    sealed = models.TextField(editable=False)
    kept_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.reference
