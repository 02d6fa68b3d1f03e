"""Decide who may do what: `may` answers from grants and their glob patterns.

A grant on the name pattern ``*`` covers a whole cluster, including its lists; one on ``orders-*`` covers those
names only. Every verb includes VIEW of the same names, ADMIN includes every verb. A token never allows more
than its owner's grants.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from console.access.models import ApiToken, Grant, Verb

WILDCARD = "*"


@dataclass(frozen=True, slots=True)
class Allowance:
    """Verbs on the clusters and names that match two glob patterns."""

    verbs: frozenset[str]
    cluster_pattern: str
    name_pattern: str = WILDCARD

    def covers(self, verb: str, cluster: str, name: str) -> bool:
        return (
            includes(self.verbs, verb)
            and _pattern_covers(self.cluster_pattern, cluster)
            and _pattern_covers(self.name_pattern, name)
        )


@dataclass(frozen=True, slots=True)
class TokenPrincipal:
    """The `request.user` of an API token: the owner, narrowed to the token's verbs and clusters."""

    owner: Any
    token: ApiToken
    is_authenticated: bool = True
    is_anonymous: bool = False

    @property
    def pk(self) -> Any:
        return self.owner.pk

    @property
    def is_active(self) -> bool:
        return bool(self.owner.is_active)

    @property
    def username(self) -> str:
        return str(self.owner.get_username())

    def get_username(self) -> str:
        return self.username

    def __str__(self) -> str:
        return self.username


def is_wildcard(pattern: str) -> bool:
    """Whether a pattern stands for every name: ``*``, or several of them."""
    return bool(pattern) and not pattern.strip(WILDCARD)


def _pattern_covers(pattern: str, name: str) -> bool:
    """Whether a pattern covers a name.

    The name ``*`` means all names, which the pattern ``?`` does not cover although it matches the character.
    """
    return is_wildcard(pattern) if name == WILDCARD else fnmatchcase(name, pattern)


def includes(verbs: Iterable[str], verb: str) -> bool:
    """Whether a set of verbs allows ``verb``."""
    held = frozenset(verbs)
    return verb in held or Verb.ADMIN in held or (verb == Verb.VIEW and bool(held))


def may(principal: Any, verb: str, cluster: str, name: str = WILDCARD) -> bool:
    """Whether a person or token may do ``verb`` to ``name`` of ``cluster``; ``*`` means all names.

    Queries the grants once per principal object, so a change of grants shows at the next request.
    """
    if isinstance(principal, TokenPrincipal):
        own = Allowance(frozenset(principal.token.scopes), principal.token.cluster_pattern)
        return own.covers(verb, cluster, name) and may(principal.owner, verb, cluster, name)
    if principal is None or not principal.is_authenticated or not principal.is_active:
        return False
    if principal.is_superuser:
        return True
    return any(allowance.covers(verb, cluster, name) for allowance in allowances_of(principal))


def may_see_activity(principal: Any, cluster: str = "") -> bool:
    """Whether the audit may be read: of one cluster, or of everything (sign-ins and tokens included).

    One cluster requires VIEW of all of it, everything requires VIEW of every cluster.
    """
    return may(principal, Verb.VIEW, cluster or WILDCARD)


def may_see_cluster(principal: Any, cluster: str) -> bool:
    """Whether any part of the cluster is visible: decides what the cluster switcher lists."""
    if isinstance(principal, TokenPrincipal):
        return fnmatchcase(cluster, principal.token.cluster_pattern) and may_see_cluster(
            principal.owner, cluster
        )
    if principal is None or not principal.is_authenticated or not principal.is_active:
        return False
    if principal.is_superuser:
        return True
    return any(fnmatchcase(cluster, allowance.cluster_pattern) for allowance in allowances_of(principal))


def allowances_of(user: Any) -> tuple[Allowance, ...]:
    """Return what the person's own grants and those of their teams allow; one query, cached on the object."""
    known: tuple[Allowance, ...] | None = getattr(user, "_tidemark_allowances", None)
    if known is None:
        mine = Grant.objects.filter(user=user) | Grant.objects.filter(team__user=user)
        known = tuple(
            Allowance(frozenset(grant.role.verbs), grant.cluster_pattern, grant.name_pattern)
            for grant in mine.select_related("role").distinct()
        )
        user._tidemark_allowances = known
    return known
