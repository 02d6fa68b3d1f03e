"""Queries for people, tokens, chosen columns and audit events."""

import datetime
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from console.access.errors import LinkInvalid
from console.access.models import ApiToken, AuditEvent, ColumnChoice, SignInLink
from console.lists.spec import ListSpec
from console.text import Text

AUDIT_CHOICES_MAX = 100


def sha256(key: str) -> str:
    """Hash the key of a link or token for storage; keys are random, so a plain hash is enough."""
    return hashlib.sha256(key.encode()).hexdigest()


def first_administrator() -> User | None:
    """Return the oldest active superuser, for whom `up` makes a sign-in link."""
    return User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()


def open_link(key: str, now: datetime.datetime) -> SignInLink:
    """Return the unused, unexpired link of ``key``. Raises LinkInvalid."""
    found = SignInLink.objects.select_related("user").filter(
        key_sha256=sha256(key), used_at=None, expires_at__gt=now, user__is_active=True
    )
    link = found.first()
    if link is None:
        raise LinkInvalid(Text("This sign-in link has been used or has expired. Request a new one."))
    return link


TOKENS = ListSpec(
    name="tokens",
    key="-pk",
    default="-created",
    columns=(),
    orders={
        "created": lambda token: token.created_at,
        "name": lambda token: token.name,
        "owner": lambda token: token.owner.username,
        "expires": lambda token: token.expires_at,
        "last_used": lambda token: token.last_used_at,
    },
    searched=("name", "prefix", "owner.username"),
)


def tokens_of(owner: Any = None) -> Sequence[ApiToken]:
    """Return the tokens of one person, or of all, newest first."""
    found = ApiToken.objects.select_related("owner")
    return list(found.filter(owner=owner) if owner is not None else found)


def column_choice(person: Any, spec: ListSpec) -> str:
    """Return a person's chosen columns as JSON {"table", "columns", "on", "off"}; "" without a choice.

    `static/js/theme.js` reads it; all columns are given by name.
    """
    found = ColumnChoice.objects.filter(user=person, table=spec.name).first()
    if found is None:
        return ""
    choice = {"table": spec.name, "columns": spec.column_names, "on": found.shown, "off": found.hidden}
    return json.dumps(choice)


def audit_events(
    *, cluster: str = "", subject: str = "", actor: str = "", plan_id: str = ""
) -> QuerySet[AuditEvent]:
    """Return audit events, newest first, filtered by each argument that is not empty."""
    wanted = {"cluster": cluster, "subject": subject, "actor": actor, "plan_id": plan_id}
    return AuditEvent.objects.filter(**{field: value for field, value in wanted.items() if value})


def audit_events_like(
    *, cluster: str = "", subject: str = "", actor: str = "", plan_id: str = "", verb: str = ""
) -> QuerySet[AuditEvent]:
    """Return audit events as `audit_events` does, of a person and subject whose name has the given part."""
    parts = {"subject__icontains": subject, "actor__icontains": actor, "verb": verb}
    found = audit_events(cluster=cluster, plan_id=plan_id)
    return found.filter(**{field: value for field, value in parts.items() if value})


def audit_choices(events: QuerySet[AuditEvent], field: str) -> list[str]:
    """Return the values of a field for a filter's choices; [] where they are too many for a list."""
    names = events.exclude(**{field: ""}).order_by(field).values_list(field, flat=True)
    found = list(names.distinct()[: AUDIT_CHOICES_MAX + 1])
    return found if len(found) <= AUDIT_CHOICES_MAX else []
