"""Find which members joined, left or restarted between two sweeps. Pure: two lists in, one change out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from console.lag.history.owners import host_of
from console.lag.models import ClientRow
from console.text import JsonObject

# Of each kind: for a deployment of a thousand clients the count is enough.
NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class MemberChange:
    """Hold the ids of clients; of a client that restarted the id that it has now."""

    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.joined or self.left or self.restarted)

    def as_json(self) -> JsonObject:
        """Return the value of `LagEvent.members`: the count of each kind, and the first `NAMED_MAX` names."""
        kinds = {"joined": self.joined, "left": self.left, "restarted": self.restarted}
        return {
            name: {"count": len(ids), "names": list(ids[:NAMED_MAX])} for name, ids in kinds.items() if ids
        }


def change_of(before: Iterable[ClientRow], after: Iterable[ClientRow]) -> MemberChange:
    """Return what changed between two sweeps that both know the members.

    A client restarted when it has another start time under the same id, or when its host lost one id and shows a new
    one: Java clients have their process id in theirs.
    """
    was, now = ({row.client_id: row for row in rows} for rows in (before, after))
    restarted = [name for name in was.keys() & now.keys() if _started_anew(was[name], now[name])]
    joined = _by_host(row for name, row in now.items() if name not in was)
    left = _by_host(row for name, row in was.items() if name not in now)
    new: list[str] = []
    gone: list[str] = []
    for host in {*joined, *left}:
        came, went = joined.get(host, []), left.get(host, [])
        pairs = min(len(came), len(went))
        restarted += came[:pairs]
        new += came[pairs:]
        gone += went[pairs:]
    return MemberChange(tuple(sorted(new)), tuple(sorted(gone)), tuple(sorted(restarted)))


def _started_anew(was: ClientRow, now: ClientRow) -> bool:
    known = was.started_at_ms is not None and now.started_at_ms is not None
    return known and was.started_at_ms != now.started_at_ms


def _by_host(rows: Iterable[ClientRow]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        found[host_of(row)].append(row.client_id)
    return {host: sorted(names) for host, names in found.items()}
