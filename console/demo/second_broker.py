"""The demo's second broker: switched off and on from a page, to see how everything shows a broker's failure.

`manage.py up` follows the switch, a file in the data folder, within a second.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from console.access.services import record_audit
from console.access.session.visitor import remote_addr
from console.cluster.models import Cluster
from console.process.programs import SECOND_BROKER_NAME, off_switch


def exists(cluster: Cluster) -> bool:
    """Return whether this cluster has the demo's second broker."""
    return bool(settings.DEMO and cluster.is_embedded)


def is_off() -> bool:
    """Return whether the second broker is switched off."""
    return off_switch(settings.DATA_DIR).exists()


def switch(cluster: Cluster, *, off: bool, request: HttpRequest) -> None:
    """Stop or start the second broker, and record who did it. Repeating it changes nothing."""
    if off == is_off():
        return
    file = off_switch(settings.DATA_DIR)
    if off:
        file.touch()
    else:
        file.unlink(missing_ok=True)
    record_audit(
        actor=request.user,
        verb="stop demo broker" if off else "start demo broker",
        cluster=cluster.name,
        subject=SECOND_BROKER_NAME,
        remote_addr=remote_addr(request),
    )
