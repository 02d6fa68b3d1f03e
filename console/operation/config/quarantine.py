"""Topics and groups closed to all clients, as a step before deletion; read from the jobs that closed them.

The job itself is the record: since when, by whom, and each broker's configuration before. Whether the brokers
still have the closed configuration is not known here; read it from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from django.conf import settings

from console.operation.config.row import Config, is_denied
from console.operation.config.write import writes_of
from console.operation.models import Job
from console.text import Duration, Moment, Text
from console.text.stored import Stored, of_json
from spark.lag.local_time import HOUR_MS

# Clients read the route every 30 s: what they write until then is expected.
NOTICE_MS = 60_000
# Of one object, newest first: each lists what it changed on which broker.
JOBS_READ_MAX = 200


class MessagesWritten(Stored, frozen=True, kw_only=True):
    """How many messages were ever written to a topic, in the result of the job that closed it."""

    written_messages: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Quarantine:
    """``former``: broker name → configuration before. ``written``: messages ever written when it began."""

    since_ms: int
    by: str
    plan_id: str
    former: dict[str, Config]
    written: int | None

    def has_traffic(self, last_write_ms: int | None) -> bool:
        """Return whether a client wrote after all of them must have read the new route."""
        return last_write_ms is not None and last_write_ms > self.since_ms + NOTICE_MS

    @property
    def deletable_at_ms(self) -> int:
        """Return from when on deletion is offered."""
        return self.since_ms + quarantine_hours() * HOUR_MS


def quarantine_hours() -> int:
    """Return how long an object must be in quarantine before deletion is offered."""
    return int(settings.QUARANTINE_HOURS)


def quarantine_of(cluster: str, what: str, name: str) -> Quarantine | None:
    """Return the quarantine that this console began, unless it was ended here; None without one."""
    jobs = Job.objects.filter(cluster=cluster, subject=name, kind__startswith=f"{what}_")
    newest = list(jobs.select_related("plan").order_by("-created_at", "-id")[:JOBS_READ_MAX])
    former: dict[str, Config] = {}
    # Brokers that deleted the quarantined object; an undo recreates it quarantined.
    deleted: set[str] = set()
    began: Job | None = None
    for job in reversed(newest):
        for write in writes_of(job):
            if write.object != (what, name) or not write.is_done:
                continue
            broker, before, after = write.broker_name, write.before, write.after
            deleted.discard(broker)
            if after is None:
                deleted.add(broker)
            elif not is_denied(what, after):
                former.pop(broker, None)
            elif before is not None and not is_denied(what, before):
                former[broker] = before
                began = job
    former = {broker: config for broker, config in former.items() if broker not in deleted}
    if not former or began is None:
        return None
    return Quarantine(
        since_ms=max(write.at_ms or 0 for write in writes_of(began)),
        by=began.created_by,
        plan_id=began.plan_id,
        former=former,
        written=of_json(MessagesWritten, began.result).written_messages,
    )


def waiting(what: str, found: Mapping[str, Config], quarantine: Quarantine | None, now_ms: int) -> Text:
    """Return why the object cannot be deleted yet; empty if it can.

    ``found``: its configuration on each broker now.
    """
    still_open = [name for name, config in found.items() if not is_denied(what, config)]
    hours = quarantine_hours()
    if quarantine is None:
        return Text(
            "Put it in quarantine first: it is still in use. It can be deleted %(hours)s hours later.",
            hours=hours,
        )
    if still_open:
        return Text(
            "Put it in quarantine first: it is still in use on %(where)s. It can be deleted %(hours)s "
            "hours later.",
            where=Text.of_names(still_open),
            hours=hours,
        )
    if now_ms < quarantine.deletable_at_ms:
        return Text(
            "It has been in quarantine for %(age)s; it can be deleted after %(hours)s hours, from "
            "%(time)s on.",
            age=Duration(now_ms - quarantine.since_ms),
            hours=hours,
            time=Moment(quarantine.deletable_at_ms),
        )
    return Text()
