"""`token`: create, list and revoke API tokens."""

import dataclasses
import datetime
import json
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from console.access import selectors, services
from console.access.models import ApiToken, Verb


class Command(BaseCommand):
    help = "Create, list and revoke API tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        creating = actions.add_parser("create", help="create a token; its key is shown only this once")
        creating.add_argument(
            "name",
            nargs="?",
            default="command line",
            help="the script or system that uses it (default: command line)",
        )
        creating.add_argument("--user", help="its owner (default: the first administrator)")
        creating.add_argument(
            "--scope",
            action="append",
            choices=Verb.values,
            help="a permission; may be repeated (default: VIEW)",
        )
        creating.add_argument("--cluster", default="*", help="pattern of cluster names (default: all)")
        creating.add_argument("--days", type=int, help="days until it expires (default: never)")
        creating.add_argument("--format", choices=["table", "json"], default="table")
        listing = actions.add_parser("list", help="list all tokens, without their keys")
        listing.add_argument("--format", choices=["table", "json"], default="table")
        revoking = actions.add_parser("revoke", help="revoke a token immediately")
        revoking.add_argument("prefix", help="the first 12 characters of its key")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(**options)

    def _create(
        self,
        *,
        name: str,
        user: str | None,
        scope: list[str] | None,
        cluster: str,
        days: int | None,
        format: str,
        **_: Any,
    ) -> None:
        owner = User.objects.filter(username=user).first() if user else selectors.first_administrator()
        if owner is None:
            raise CommandError(
                f"The user {user} does not exist."
                if user
                else "There is no administrator yet; run manage.py up."
            )
        if days is not None and days < 1:
            raise CommandError("--days is 1 or more.")
        expires_at = None if days is None else timezone.now() + datetime.timedelta(days=days)
        token, key = services.create_token(
            owner=owner,
            name=name,
            scopes=scope or [Verb.VIEW],
            cluster_pattern=cluster,
            expires_at=expires_at,
        )
        self.stdout.write(
            json.dumps({**dataclasses.asdict(_row(token)), "key": key}, indent=1) if format == "json" else key
        )

    def _list(self, *, format: str, **_: Any) -> None:
        rows = [_row(token) for token in selectors.tokens_of()]
        if format == "json":
            self.stdout.write(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
            return
        for row in rows:
            self.stdout.write(
                f"{row.prefix:<12} {row.state:<8} {row.owner:<16} {row.cluster:<12} "
                f"{','.join(row.scopes):<28} last used {row.last_used_at or 'never':<25} {row.name}"
            )

    def _revoke(self, *, prefix: str, **_: Any) -> None:
        if not services.revoke_token(prefix=prefix):
            raise CommandError(f"There is no active token {prefix}; list them with manage.py token list.")
        self.stdout.write(f"{prefix} revoked")


@dataclasses.dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as the command prints it."""

    prefix: str
    name: str
    owner: str
    scopes: list[str]
    cluster: str
    state: str
    expires_at: str | None
    last_used_at: str | None


def _row(token: ApiToken) -> TokenRow:
    is_over = token.expires_at is not None and token.expires_at <= timezone.now()
    return TokenRow(
        prefix=token.prefix,
        name=token.name,
        owner=token.owner.get_username(),
        scopes=token.scopes,
        cluster=token.cluster_pattern,
        state="revoked" if token.revoked_at else "expired" if is_over else "active",
        expires_at=token.expires_at.isoformat() if token.expires_at else None,
        last_used_at=token.last_used_at.isoformat() if token.last_used_at else None,
    )
