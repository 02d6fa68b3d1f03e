"""Keep the versions of groups' promises: a change begins a new one and leaves the past as it was promised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings

from console.lag.episode_state import Promised
from console.lag.models import GroupSlo


def installation() -> Promised:
    """Return the default promise, of groups without their own."""
    return Promised(settings.LAG_SLO_MS, settings.LAG_SLO_TARGET)


@dataclass(frozen=True, slots=True)
class Promises:
    """Hold the versions of every group that ever had its own promise, oldest first."""

    default: Promised
    versions: Mapping[str, Sequence[Promised]] = field(default_factory=dict)

    def at(self, group: str, at_ms: int) -> Promised:
        """Return the promise in force at a moment."""
        own = (one for one in reversed(self.versions.get(group, ())) if one.from_ms <= at_ms)
        return next(own, self.default)

    def pieces(self, group: str, from_ms: int, to_ms: int) -> list[tuple[int, Promised]]:
        """Split [from_ms, to_ms) into parts with one promise each; return (start, promise) of each."""
        starts = (one.from_ms for one in self.versions.get(group, ()))
        edges = [from_ms, *(at_ms for at_ms in starts if from_ms < at_ms < to_ms)]
        return [(at_ms, self.at(group, at_ms)) for at_ms in edges]


def promises_of(cluster: str, groups: Iterable[str] | None = None) -> Promises:
    """Return the promises of a cluster's groups, or of some of them. One query."""
    default = installation()
    rows = GroupSlo.objects.filter(cluster=cluster).order_by("from_ms")
    if groups is not None:
        rows = rows.filter(group__in=list(groups))
    found: dict[str, list[Promised]] = {}
    for row in rows:
        slo_ms = default.slo_ms if row.slo_ms is None else row.slo_ms
        target = default.target if row.target is None else row.target
        found.setdefault(row.group, []).append(Promised(slo_ms, target, row.from_ms))
    return Promises(default, found)
