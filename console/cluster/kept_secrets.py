"""Secrets between a plan and its job: encrypted, a day at most, under a reference that a plan keeps in their place.

The same secret has the same reference, so that a repeated request is recognised; it is made with SECRET_KEY and shows
nothing of the secret.
"""

from __future__ import annotations

import datetime

from django.utils import timezone
from django.utils.crypto import salted_hmac

from console.cluster.models import KeptSecret
from console.cluster.sealed import SecretUnreadable, seal, unseal

# A plan lives for minutes; its job may wait for a broker, paused, until an operator looks at it.
KEPT_FOR = datetime.timedelta(days=1)
PURPOSE = "console.cluster.kept_secrets"


def keep(secret: str) -> str:
    """Store a secret and return its reference; those that are too old are deleted."""
    now = timezone.now()
    KeptSecret.objects.filter(kept_at__lt=now - KEPT_FOR).delete()
    reference = salted_hmac(PURPOSE, secret, algorithm="sha256").hexdigest()
    KeptSecret.objects.update_or_create(
        reference=reference, defaults={"sealed": seal(secret), "kept_at": now}
    )
    return reference


def secret_of(reference: str) -> str | None:
    """Return the secret; None once it was dropped, is too old, or was stored with another SECRET_KEY."""
    kept = KeptSecret.objects.filter(reference=reference, kept_at__gte=timezone.now() - KEPT_FOR).first()
    try:
        return None if kept is None else unseal(kept.sealed)
    except SecretUnreadable:
        return None


def drop(reference: str) -> None:
    """Delete a secret that no job needs any more."""
    KeptSecret.objects.filter(reference=reference).delete()
