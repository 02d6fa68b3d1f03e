"""Create and change people, grants, roles, tokens, links and audit events."""

import datetime
import logging
import secrets
from collections.abc import Sequence
from typing import Any

from django.contrib.auth import authenticate
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from console.access.errors import LinkInvalid, RoleRejected, TokenInvalid, WrongCredentials
from console.access.models import (
    ApiToken,
    AuditEvent,
    ColumnChoice,
    Grant,
    Role,
    SignInFailure,
    SignInLink,
    Verb,
)
from console.access.rules import TokenPrincipal
from console.access.selectors import first_administrator, open_link, sha256
from console.access.session import attempts
from console.text import Text

logger = logging.getLogger(__name__)

FIRST_PERSON = "admin"
# Long enough to open a browser, short enough to be harmless in a log.
LINK_LIFE = datetime.timedelta(minutes=15)
KEY_BYTES = 32
# "tm_" and nine characters: enough to recognise, too few to guess the other 34.
PREFIX_LENGTH = 12
# Not every call of a script may cause a write.
LAST_USED_EVERY = datetime.timedelta(minutes=1)

# Wrong sign-ins of all addresses within `attempts.WINDOW` that are audited at most: audit events are never
# deleted, and strangers must not fill the disk with them.
FAILURES_AUDITED_MAX = 200
A_STRANGER = "not signed in"

BUILT_IN_ROLES = {
    "viewer": [Verb.VIEW],
    "operator": [Verb.VIEW, Verb.SEND, Verb.RESET, Verb.REPLAY, Verb.REPORT],
    "maintainer": [Verb.VIEW, Verb.SEND, Verb.RESET, Verb.REPLAY, Verb.REPORT, Verb.CONFIGURE],
    "administrator": [Verb.ADMIN],
}


# --- People -------------------------------------------------------------------------------------------------


def ensure_first_person() -> User:
    """Return the first administrator; on a new installation create it, without a password.

    Creates the built-in roles that are missing.
    """
    with transaction.atomic():
        person = first_administrator()
        if person is None:
            person = User(username=FIRST_PERSON, is_staff=True, is_superuser=True)
            person.set_unusable_password()
            person.save()
            logger.info("first person created user=%s", person.username)
        for name, verbs in BUILT_IN_ROLES.items():
            Role.objects.get_or_create(name=name, defaults={"verbs": [str(verb) for verb in verbs]})
    return person


def grant(
    *, role: str, user: Any = None, team: Any = None, cluster_pattern: str = "*", name_pattern: str = "*"
) -> Grant:
    """Give a role to a person or a team."""
    return Grant.objects.create(
        role=Role.objects.get(name=role),
        user=user,
        team=team,
        cluster_pattern=cluster_pattern,
        name_pattern=name_pattern,
    )


def set_role(name: str, verbs: Sequence[str], *, actor: Any, remote_addr: str = "") -> Role:
    """Create a role, or set its verbs; its holders have them from the next request on."""
    with transaction.atomic():
        role = Role.objects.select_for_update().filter(name=name).first()
        before = None if role is None else {"verbs": role.verbs}
        role = role or Role(name=name)
        role.verbs = list(dict.fromkeys(str(verb) for verb in verbs))
        role.save()
        after = {"verbs": role.verbs}
        record_audit(
            actor=actor, verb="set role", subject=name, before=before, after=after, remote_addr=remote_addr
        )
    return role


def remove_role(name: str, *, actor: Any, remote_addr: str = "") -> None:
    """Remove a role that no grant uses. Raises RoleRejected."""
    with transaction.atomic():
        role = Role.objects.select_for_update().filter(name=name).first()
        if role is None:
            raise RoleRejected(f"There is no role {name}.")
        if role.grants.exists():
            raise RoleRejected(f"{role.grants.count()} grants give the role {name}: remove them first.")
        before = {"verbs": role.verbs}
        role.delete()
        record_audit(actor=actor, verb="remove role", subject=name, before=before, remote_addr=remote_addr)


def create_sign_in_link(user: Any, *, now: datetime.datetime | None = None) -> str:
    """Create a link that signs ``user`` in once within 15 minutes; returns the key of ``/sign-in/<key>``.

    Earlier unused links of the person stop working: only the newest is valid.
    """
    at = now or timezone.now()
    key = secrets.token_urlsafe(KEY_BYTES)
    with transaction.atomic():
        SignInLink.objects.filter(user=user, used_at=None).delete()
        SignInLink.objects.create(user=user, key_sha256=sha256(key), created_at=at, expires_at=at + LINK_LIFE)
    return key


def redeem_sign_in_link(
    key: str, *, password: str | None = None, remote_addr: str = "", now: datetime.datetime | None = None
) -> User:
    """Use up a link and return its person; set ``password`` too if given (validated by the caller).

    Raises LinkInvalid, also for the second of two simultaneous uses.
    """
    at = now or timezone.now()
    with transaction.atomic():
        link = open_link(key, at)
        if SignInLink.objects.filter(pk=link.pk, used_at=None).update(used_at=at) != 1:
            raise LinkInvalid(Text("This sign-in link has been used already."))
        person = link.user
        if password is not None:
            person.set_password(password)
            person.save(update_fields=["password"])
        record_audit(
            actor=person, verb="sign in by link", subject=person.username, remote_addr=remote_addr, now=at
        )
    return person


def change_password(
    *, person: User, old: str, new: str, remote_addr: str = "", now: datetime.datetime | None = None
) -> None:
    """Set a new password (validated by the caller) after checking the old one; other sessions end.

    The old password is not checked for a person without one. Raises WrongCredentials, TooManyAttempts.
    """
    at = now or timezone.now()
    if person.has_usable_password():
        attempt = attempts.begin(person.username, remote_addr, at)
        if not check_password(old, person.password):
            _record_failure(person.username, remote_addr, at, verb="password change failed", actor=person)
            raise WrongCredentials(Text("This is not your current password."))
        attempts.succeeded(attempt)
    with transaction.atomic():
        person.set_password(new)
        person.save(update_fields=["password"])
        record_audit(
            actor=person, verb="set password", subject=person.username, remote_addr=remote_addr, now=at
        )


def sign_in(
    request: HttpRequest | None,
    *,
    username: str,
    password: str,
    remote_addr: str,
    now: datetime.datetime | None = None,
) -> User:
    """Return the person with this name and password. Raises WrongCredentials, TooManyAttempts.

    TooManyAttempts is raised for a right password too.
    """
    at = now or timezone.now()
    attempt = attempts.begin(username, remote_addr, at)
    person = authenticate(request, username=username, password=password)
    if person is None:
        logger.warning("sign-in failed user=%r remote_addr=%s", attempt.username, remote_addr)
        _record_failure(username, remote_addr, at, verb="sign-in failed")
        raise WrongCredentials(Text("Name and password do not match."))
    assert isinstance(person, User)
    attempts.succeeded(attempt)
    record_audit(actor=person, verb="sign in", subject=person.username, remote_addr=remote_addr, now=at)
    return person


def _record_failure(
    username: str, remote_addr: str, at: datetime.datetime, *, verb: str, actor: User | str = A_STRANGER
) -> None:
    """Audit a wrong password. Unknown names are not recorded: people type passwords into that field.

    ``actor``: the person who is signed in.
    """
    if SignInFailure.objects.count() > FAILURES_AUDITED_MAX:
        return
    is_known = User.objects.filter(username=username).exists()
    record_audit(
        actor=actor,
        verb=verb,
        subject=username if is_known else "unknown name",
        remote_addr=remote_addr,
        now=at,
    )


# --- API tokens ---------------------------------------------------------------------------------------------


def create_token(
    *,
    owner: Any,
    name: str,
    scopes: Sequence[str],
    cluster_pattern: str = "*",
    expires_at: datetime.datetime | None = None,
    actor: Any = None,
    remote_addr: str = "",
) -> tuple[ApiToken, str]:
    """Create an API token; returns it and its key, which cannot be shown again.

    Raises ValueError for an unknown scope or none.
    """
    unknown = sorted(set(scopes) - set(Verb.values))
    if unknown or not scopes:
        raise ValueError(f"Scopes are {', '.join(Verb.values)}; got {', '.join(unknown) or 'none'}.")
    key = f"tm_{secrets.token_urlsafe(KEY_BYTES)}"
    with transaction.atomic():
        token = ApiToken.objects.create(
            owner=owner,
            name=name,
            prefix=key[:PREFIX_LENGTH],
            key_sha256=sha256(key),
            scopes=[str(scope) for scope in scopes],
            cluster_pattern=cluster_pattern,
            expires_at=expires_at,
        )
        after = {"owner": owner.get_username(), "scopes": token.scopes, "cluster_pattern": cluster_pattern}
        record_audit(
            actor=actor or owner,
            verb="create token",
            subject=token.prefix,
            after=after,
            remote_addr=remote_addr,
        )
    return token, key


def authenticate_token(key: str, *, now: datetime.datetime | None = None) -> TokenPrincipal:
    """Return the principal of an API token's key. Raises TokenInvalid."""
    at = now or timezone.now()
    principal = _valid(ApiToken.objects.filter(key_sha256=sha256(key)), at)
    token = principal.token
    if token.last_used_at is None or token.last_used_at <= at - LAST_USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=at)
    return principal


def principal_of_token(token_id: int) -> TokenPrincipal:
    """Return the principal of a token that was authenticated before. Raises TokenInvalid."""
    return _valid(ApiToken.objects.filter(pk=token_id), timezone.now())


def _valid(tokens: QuerySet[ApiToken], at: datetime.datetime) -> TokenPrincipal:
    token = tokens.select_related("owner").filter(revoked_at=None).first()
    if token is None or not token.owner.is_active:
        raise TokenInvalid("This API token is unknown or revoked. Create a new one.")
    if token.expires_at is not None and token.expires_at <= at:
        raise TokenInvalid(f"This API token expired at {token.expires_at:%Y-%m-%d %H:%M} UTC.")
    return TokenPrincipal(owner=token.owner, token=token)


def revoke_token(
    *, prefix: str, actor: Any = None, remote_addr: str = "", now: datetime.datetime | None = None
) -> int:
    """Revoke the token with this prefix; returns how many were revoked (0: none exists)."""
    with transaction.atomic():
        stopped = ApiToken.objects.filter(prefix=prefix, revoked_at=None).update(
            revoked_at=now or timezone.now()
        )
        if stopped:
            record_audit(actor=actor, verb="revoke token", subject=prefix, remote_addr=remote_addr)
    return stopped


# --- Audit --------------------------------------------------------------------------------------------------


def choose_columns(person: Any, table: str, *, shown: Sequence[str], hidden: Sequence[str]) -> None:
    """Store the columns of a list that a person chose; with none named, remove the choice."""
    if shown or hidden:
        wanted = {"shown": list(shown), "hidden": list(hidden)}
        ColumnChoice.objects.update_or_create(user=person, table=table, defaults=wanted)
    else:
        ColumnChoice.objects.filter(user=person, table=table).delete()


def actor_name(actor: Any) -> str:
    """Return the audit's name for a person, a TokenPrincipal, a plain name, or None (the system itself)."""
    if actor is None:
        return "system"
    return str(actor.get_username()) if hasattr(actor, "get_username") else str(actor)


def record_audit(
    *,
    actor: Any,
    verb: str,
    cluster: str = "",
    subject: str = "",
    before: Any = None,
    after: Any = None,
    plan_id: str = "",
    remote_addr: str = "",
    now: datetime.datetime | None = None,
) -> AuditEvent:
    """Record one audit event. ``actor``: a person, a TokenPrincipal, a name, or None for the system."""
    name = actor_name(actor)
    event = AuditEvent.objects.create(
        at=now or timezone.now(),
        actor=name,
        token_prefix=actor.token.prefix if isinstance(actor, TokenPrincipal) else "",
        verb=verb,
        cluster=cluster,
        subject=subject,
        before=before,
        after=after,
        plan_id=plan_id,
        remote_addr=remote_addr,
    )
    logger.info("audit actor=%s verb=%s cluster=%s subject=%s plan=%s", name, verb, cluster, subject, plan_id)
    return event
