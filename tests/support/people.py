"""Users of tests: browsers by verbs, and users by role."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client

from console.access import services
from console.access.models import Role
from tests.support.shown import Browser


def signed_in(
    name: str = "admin", *, verbs: tuple[str, ...] | None = None, cluster: str = "*", names: str = "*"
) -> Client:
    """Return a signed-in browser. Without `verbs` the user may do everything; with () nothing."""
    person = User.objects.create_user(name, is_superuser=verbs is None)
    if verbs:
        Role.objects.create(name=f"role of {name}", verbs=list(verbs))
        services.grant(role=f"role of {name}", user=person, cluster_pattern=cluster, name_pattern=names)
    client = Browser()
    client.force_login(person)
    return client


def person(name: str, role: str, cluster_pattern: str = "*", name_pattern: str = "*") -> User:
    """Create a user with one of the roles that every installation has."""
    services.ensure_first_person()
    user = User.objects.create_user(name)
    services.grant(role=role, user=user, cluster_pattern=cluster_pattern, name_pattern=name_pattern)
    return user
