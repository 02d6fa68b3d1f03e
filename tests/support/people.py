"""People of page tests: an administrator, somebody who may only look, and others by their verbs."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client

from console.access import services
from console.access.models import Role


def signed_in(
    name: str = "admin", *, verbs: tuple[str, ...] | None = None, cluster: str = "*", names: str = "*"
) -> Client:
    """A browser of this person. Without `verbs` they may do everything; with () nothing."""
    person = User.objects.create_user(name, is_superuser=verbs is None)
    if verbs:
        Role.objects.create(name=f"role of {name}", verbs=list(verbs))
        services.grant(role=f"role of {name}", user=person, cluster_pattern=cluster, name_pattern=names)
    client = Client()
    client.force_login(person)
    return client
