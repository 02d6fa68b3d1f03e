"""Grants, API tokens, one-time sign-in links and the audit. People are Django's users."""

import dataclasses
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from console.access.activity_list import sentence_of
from console.brokers import masking
from console.text import Text, text_of
from console.text.columns import TextsColumn

# Of the values that an event's row shows itself: longer and more are in its detail.
ROW_CHANGES_MAX, SHORT_LENGTH = 3, 40


class Verb(models.TextChoices):
    """What a grant allows. ADMIN includes all others."""

    VIEW = "VIEW", Text("view")
    SEND = "SEND", Text("send messages")
    RESET = "RESET", Text("change offsets")
    REPLAY = "REPLAY", Text("replay dead letters")
    REPORT = "REPORT", Text("run reports")
    UNMASK = "UNMASK", Text("show masked fields")
    CONFIGURE = "CONFIGURE", Text("change topics, groups, brokers")
    ADMIN = "ADMIN", Text("everything, including people and clusters")


class Role(models.Model):
    """A named set of verbs, e.g. "operator": VIEW RESET REPLAY."""

    name = models.CharField(max_length=64, unique=True)
    verbs = models.JSONField(default=list, help_text='a list of verbs, e.g. ["VIEW", "RESET"]')

    class Meta:
        verbose_name, verbose_name_plural = gettext_lazy("role"), gettext_lazy("roles")
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name


class Grant(models.Model):
    """A role held by one person or one team on the clusters and names that match two glob patterns."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="grants"
    )
    team = models.ForeignKey(Group, null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="grants")
    cluster_pattern = models.CharField(max_length=255, default="*")
    name_pattern = models.CharField(
        max_length=255, default="*", help_text="of topics and groups, e.g. orders-*"
    )

    class Meta:
        verbose_name, verbose_name_plural = gettext_lazy("grant"), gettext_lazy("grants")
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(user__isnull=True) ^ Q(team__isnull=True), name="grant_to_one_user_or_one_team"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user or self.team}: {self.role} on {self.cluster_pattern}/{self.name_pattern}"


class MaskRule(models.Model):
    """A part of messages that is hidden from all who read them (`console.brokers.masking`)."""

    class Where(models.TextChoices):
        BODY = "body", Text("path in a JSON body")
        PROPERTY = "property", Text("property")

    cluster_pattern = models.CharField(max_length=255, default="*")
    topic_pattern = models.CharField(
        max_length=255, help_text="e.g. payments-*; their copies are covered too"
    )
    where = models.CharField(max_length=10, choices=Where.choices)
    name = models.CharField(
        max_length=255, help_text="$.card.number, $.items[*].iban, $..password; or the property's name"
    )

    class Meta:
        verbose_name, verbose_name_plural = gettext_lazy("mask rule"), gettext_lazy("mask rules")
        ordering: ClassVar[list[str]] = ["cluster_pattern", "topic_pattern", "where", "name"]

    def __str__(self) -> str:
        return f"{self.cluster_pattern} {self.topic_pattern} {self.name}"

    def clean(self) -> None:
        """Refuse a path that cannot be parsed, and properties that cannot be hidden."""
        if self.where == self.Where.BODY:
            try:
                masking.read_path(self.name)
            except masking.PathRefused as refused:
                raise ValidationError({"name": str(refused)}) from refused
        elif self.name in masking.NOT_MASKED:
            raise ValidationError(
                {"name": "Brokers find and route messages by this property: it is not masked."}
            )


class ApiToken(models.Model):
    """A key for scripts: acts for its owner, limited to its own verbs and clusters.

    Valid until it expires or is revoked. Only the SHA-256 of the key is kept; ``prefix`` (the key's first 12
    characters) identifies it to people.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    key_sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list, help_text="a list of verbs")
    cluster_pattern = models.CharField(max_length=255, default="*")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name, verbose_name_plural = gettext_lazy("API token"), gettext_lazy("API tokens")
        ordering: ClassVar[list[str]] = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class SignInLink(models.Model):
    """A link that signs one person in once. Only its SHA-256 is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_in_links")
    key_sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"link for {self.user}"


class SignInFailure(models.Model):
    """An attempt whose password was wrong or is still being checked; `attempts` counts the recent ones."""

    username = models.CharField(max_length=150)
    remote_addr = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["username", "at"]),
            models.Index(fields=["remote_addr", "at"]),
        ]

    def __str__(self) -> str:
        return f"{self.username} from {self.remote_addr}"


class ColumnChoice(models.Model):
    """Columns of a list that one person always or never sees; the page's width decides about the others.

    ``table`` is the list's name, ``shown`` and ``hidden`` names of its columns (`console.lists.spec.ListSpec`).
    Names that the list no longer has are ignored.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="column_choices"
    )
    table = models.CharField(max_length=32)
    shown = models.JSONField(default=list)
    hidden = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "table"], name="column_choice_of_person_and_table")
        ]

    def __str__(self) -> str:
        return f"{self.table} of {self.user}"


class AuditEvent(models.Model):
    """Who did what to which subject, before and after. Rows are added, never changed."""

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor = models.CharField(max_length=150, help_text='user name, or "system"')
    token_prefix = models.CharField(max_length=12, blank=True, default="")
    verb = models.CharField(max_length=64)
    cluster = models.CharField(max_length=63, blank=True, default="")
    subject = models.CharField(max_length=300, blank=True, default="")
    before = TextsColumn(null=True, blank=True)
    after = TextsColumn(null=True, blank=True)
    plan_id = models.CharField(max_length=32, blank=True, default="", db_index=True)
    remote_addr = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        verbose_name, verbose_name_plural = gettext_lazy("audit event"), gettext_lazy("audit events")
        ordering: ClassVar[list[str]] = ["-at", "-pk"]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["cluster", "subject", "at"])]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor} {self.verb} {self.cluster}/{self.subject}"

    # Set by `activity_list.described`: the kind of the plan, and the object in words where it has a title.
    plan_kind = ""
    object_words = ""

    @property
    def sentence(self) -> Text:
        return sentence_of(self.verb, self.object_words or self.subject, self.plan_kind)

    @property
    def changes(self) -> "list[ValueChange]":
        """Return what differs between before and after, where all of it is short enough for the event's row."""
        before, after = self.before, self.after
        if not (isinstance(before, dict) and isinstance(after, dict)):
            before, after = {"": before}, {"": after}
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        found = [ValueChange(name, before.get(name), after.get(name)) for name in names]
        return found if len(found) <= ROW_CHANGES_MAX and all(one.is_short for one in found) else []

    @property
    def note(self) -> str:
        """Return the words an event left: a plan's summary, a reason, an error; "" where it left data."""
        if isinstance(self.after, list) and all(isinstance(part, str) for part in self.after):
            return Text.of_parts([text_of(part) for part in self.after])
        return self.after if isinstance(self.after, str) and not self.changes else ""

    @property
    def has_detail(self) -> bool:
        """Whether the row does not show all of before and after."""
        return self.before is not None or (self.after is not None and not self.note)


@dataclasses.dataclass(frozen=True, slots=True)
class ValueChange:
    """A value before and after an event; ``name``: of the field, "" where the value is all there is."""

    name: str
    before: Any
    after: Any

    @property
    def is_short(self) -> bool:
        """Whether both fit a row; None is the absence of an event's only value, and a value of a named field."""
        return all(
            isinstance(value, int | float)
            or (isinstance(value, str) and len(value) <= SHORT_LENGTH)
            or (value is None and self.name)
            for value in (self.before, self.after)
        )
