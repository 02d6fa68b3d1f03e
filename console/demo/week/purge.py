"""Delete the sample cluster with everything that was made for it."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from console.cluster import services as cluster_services
from console.lag import services as lag_services
from console.process.programs import week_note
from console.report import services as report_services


def delete(name: str, actor: Any, *, remote_addr: str = "", now_ms: int) -> None:
    """Delete a generated cluster for good, and record who did it. Raises Cluster.DoesNotExist."""
    week_note(settings.DATA_DIR).write_text("deleted\n")
    cluster_services.remove_cluster(name, actor, remote_addr=remote_addr)
    purge(name, now_ms=now_ms)


def purge(name: str, *, now_ms: int) -> None:
    """Delete reports, history and rows of a cluster that is not registered."""
    report_services.drop_cluster(name)
    lag_services.drop_cluster(name, now_ms=now_ms)
