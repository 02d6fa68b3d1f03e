"""The list of audit events, newest first: columns for the page and for files, sentences of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import pgettext_lazy

from console.lists.file import streamed_file
from console.lists.spec import Column, ListSpec
from console.text import Text
from console.web.streamed import StreamedResponse

# About 20 MB; more is a job for the database.
FILE_EVENTS_MAX = 100_000
DESCRIBED_AT_ONCE = 500

ACTIVITY = ListSpec(
    name="activity",
    key="-pk",
    default="-at",
    moment="at",
    orders={"subject": ("subject",)},
    columns=(
        Column("at", Text("Time"), css="", order=("at",), fields=("at",)),
        Column(
            "actor", Text("Who"), css="", order=("actor",), ascending=True, fields=("actor", "token_prefix")
        ),
        Column(
            "event",
            Text("Event"),
            css="",
            order=("verb",),
            ascending=True,
            fields=("sentence", "verb", "subject"),
        ),
        Column("cluster", Text("Cluster"), css="p2", order=("cluster",), ascending=True, fields=("cluster",)),
        Column("plan", Text("Plan"), css="", fields=("plan_id",)),
        Column("from", Text("Address"), css="p3", fields=("remote_addr",)),
        Column("detail", Text("Detail"), css="", is_bare=True, fields=("before", "after")),
    ),
)

# Stands for the object where a sentence is about none, as in the choices of a filter.
ANY = "…"
# Verb of an event → its sentence; pages, files and the filter's choices have it from here, REST gives the verb.
AUDIT_VERBS: Mapping[str, Text] = {
    # people, teams, rights
    "add grant": Text("Added the permission %(object)s", object=ANY),
    "add person": Text("Added the person %(object)s", object=ANY),
    "add team": Text("Added the team %(object)s", object=ANY),
    "change grant": Text("Changed the permission %(object)s", object=ANY),
    "change person": Text("Changed the person %(object)s", object=ANY),
    "change team": Text("Changed the team %(object)s", object=ANY),
    "create token": Text("Created the token %(object)s", object=ANY),
    "password change failed": Text("Password change failed: %(object)s", object=ANY),
    "remove grant": Text("Removed the permission %(object)s", object=ANY),
    "remove person": Text("Removed the person %(object)s", object=ANY),
    "remove role": Text("Removed the role %(object)s", object=ANY),
    "remove team": Text("Removed the team %(object)s", object=ANY),
    "revoke token": Text("Revoked the token %(object)s", object=ANY),
    "set password": Text("Set the password of %(object)s", object=ANY),
    "set role": Text("Set the permissions of the role %(object)s", object=ANY),
    "sign in": Text("Signed in as %(object)s", object=ANY),
    "sign in by link": Text("Signed in with a link as %(object)s", object=ANY),
    "sign-in failed": Text("Sign-in failed: %(object)s", object=ANY),
    # masked fields
    "add mask": Text("Added the mask %(object)s", object=ANY),
    "change mask": Text("Changed the mask %(object)s", object=ANY),
    "remove mask": Text("Removed the mask %(object)s", object=ANY),
    "show masked fields": Text("Showed the masked fields of the message %(object)s", object=ANY),
    # clusters, reports, body schemas
    "add cluster": Text("Added the cluster %(object)s", object=ANY),
    "change SLO": Text("Changed the SLO of group %(object)s", object=ANY),
    "change cluster": Text("Changed the settings of the cluster %(object)s", object=ANY),
    "change schedule": Text("Changed the schedule of the report %(object)s", object=ANY),
    "cluster not added": Text("Cluster not added: %(object)s", object=ANY),
    "remove body schema": Text("Removed the body schema of topic %(object)s", object=ANY),
    "remove cluster": Text("Removed the cluster %(object)s", object=ANY),
    "run report": Text("Requested a run of the report %(object)s", object=ANY),
    "set body schema": Text("Set the body schema of topic %(object)s", object=ANY),
    # the demo
    "stop demo broker": Text("Stopped the demo broker %(object)s", object=ANY),
    "start demo broker": Text("Started the demo broker %(object)s", object=ANY),
    # plans and their jobs
    "apply": Text("Applied the plan for %(object)s", object=ANY),
    "apply refused": Text("Refused to apply the plan for %(object)s", object=ANY),
    "approve": Text("Approved the plan for %(object)s", object=ANY),
    "cancel": Text("Requested cancellation of the job for %(object)s", object=ANY),
    "discard": Text("Discarded the plan for %(object)s", object=ANY),
    "job applied": Text("Job made its changes, verification started: %(object)s", object=ANY),
    "job fail": Text("Job failed: %(object)s", object=ANY),
    "job pause": Text("Job paused: %(object)s", object=ANY),
    "job resume": Text("Job continued: %(object)s", object=ANY),
    "job start": Text("Job started: %(object)s", object=ANY),
    "job stop": Text("Job cancelled: %(object)s", object=ANY),
    "job verified": Text("Job finished and verified: %(object)s", object=ANY),
    "pause": Text("Paused the job for %(object)s", object=ANY),
    "plan": Text("Made a plan for %(object)s", object=ANY),
    "rate": Text("Changed the rate of the job for %(object)s", object=ANY),
    "resume": Text("Continued the job for %(object)s", object=ANY),
}
# Of these events the object is a report, by the name of its job.
REPORT_VERBS = frozenset({"run report", "change schedule"})
# The same of an event whose plan is known: with the title of its kind.
KIND_VERBS: Mapping[str, Text] = {
    "apply": Text("Applied %(kind)s: %(object)s", object=ANY, kind=ANY),
    "apply refused": Text("Refused to apply %(kind)s: %(object)s", object=ANY, kind=ANY),
    "approve": Text("Approved %(kind)s: %(object)s", object=ANY, kind=ANY),
    "cancel": Text("Requested cancellation of %(kind)s: %(object)s", object=ANY, kind=ANY),
    "discard": Text("Discarded %(kind)s: %(object)s", object=ANY, kind=ANY),
    "job applied": Text("Changes made, verification started, %(kind)s: %(object)s", object=ANY, kind=ANY),
    "job fail": Text("Job failed, %(kind)s: %(object)s", object=ANY, kind=ANY),
    "job pause": Text("Job paused, %(kind)s: %(object)s", object=ANY, kind=ANY),
    "job resume": Text("Job continued, %(kind)s: %(object)s", object=ANY, kind=ANY),
    "job start": Text("Job started, %(kind)s: %(object)s", object=ANY, kind=ANY),
    "job stop": Text("Job cancelled, %(kind)s: %(object)s", object=ANY, kind=ANY),
    "job verified": Text("Job finished and verified, %(kind)s: %(object)s", object=ANY, kind=ANY),
    "pause": Text("Paused %(kind)s: %(object)s", object=ANY, kind=ANY),
    "plan": Text("Planned %(kind)s: %(object)s", object=ANY, kind=ANY),
    "rate": Text("Changed the rate of %(kind)s: %(object)s", object=ANY, kind=ANY),
    "resume": Text("Continued %(kind)s: %(object)s", object=ANY, kind=ANY),
}


# Field of a changed value → its name on pages; a field without one is shown as it is stored.
FIELD_WORDS: Mapping[str, Text | Promise] = {
    "absent": Text("without"),
    "access_key": Text("access key"),
    "addr": Text("address"),
    "after": Text("after"),
    "already": Text("replayed already"),
    "answering": Text("brokers that answer"),
    "before": Text("before"),
    "broker_name": Text("broker"),
    "brokers": Text("brokers"),
    "cadence": Text("cadence"),
    "cluster": Text("cluster"),
    "cluster_pattern": Text("clusters"),
    "committed": Text("committed offset"),
    "config": Text("configuration"),
    "count": Text("number"),
    "counted": Text("counted"),
    "coverage": Text("coverage"),
    "covered": Text("covered"),
    "emails": Text("e-mail to"),
    "error": Text("error"),
    "expected": Text("expected"),
    "expiring": Text("expiring by then"),
    "failed": Text("failed"),
    "from_ms": Text("from"),
    "from_offset": Text("start offset"),
    "group": Text("group"),
    "groups": pgettext_lazy("name of a field", "groups"),
    "handled": Text("marked as handled"),
    "hour": Text("hour"),
    "is_active": Text("may sign in"),
    "is_gone": Text("no traffic"),
    "is_on": pgettext_lazy("name of a field", "on"),
    "is_production": Text("production"),
    "is_superuser": Text("has all permissions"),
    "key": Text("key"),
    "lag": Text("lag"),
    "looked_at_ms": Text("read"),
    "matched": Text("matched"),
    "max_offset": Text("end offset"),
    "members": Text("clients"),
    "message_type": Text("message type"),
    "messages": Text("number of messages"),
    "min_offset": Text("start offset"),
    "minute": Text("minute"),
    "moved": Text("moved"),
    "name": Text("name"),
    "name_pattern": Text("names"),
    "namesrv": Text("name server"),
    "namesrv_addrs": Text("name servers"),
    "needs": Text("required permission"),
    "notified": Text("notified"),
    "offset": Text("offset"),
    "offsets": Text("offsets"),
    "owner": Text("owner"),
    "pending": Text("pending"),
    "perm": Text("permission"),
    "poll_interval_s": Text("collection interval, seconds"),
    "puts": Text("messages since the change"),
    "queue": Text("queue"),
    "queue_id": Text("queue"),
    "queues": pgettext_lazy("name of a field", "queues"),
    "quiet_ms": Text("time without messages"),
    "quiet_since_ms": Text("last message"),
    "ranges": Text("offset ranges"),
    "rate_per_s": Text("rate"),
    "read_at_ms": Text("read"),
    "read_back": Text("copies read back"),
    "reason": Text("reason"),
    "retention_ms": Text("retention"),
    "retries": Text("retries"),
    "role": Text("role"),
    "run": Text("run"),
    "scopes": Text("permissions"),
    "second_person_messages": Text("second person approves from (messages)"),
    "secret_key": Text("secret key"),
    "security_token": Text("security token"),
    "sent": Text("sent"),
    "sent_per_s": Text("sent per second"),
    "servers": Text("name servers"),
    "skipped": Text("skipped"),
    "slo_ms": Text("no message waits longer than"),
    "speed": Text("speed"),
    "state": Text("state"),
    "stranded": Text("topics without a writable queue"),
    "takes_s": Text("estimated duration"),
    "target": Text("share of the time, percent"),
    "team": Text("team"),
    "time_zone": Text("time zone"),
    "tls_ca": Text("CA certificates"),
    "tls_certificate": Text("client certificate"),
    "tls_checks_host_name": Text("certificate is checked against the host name"),
    "tls_key": Text("key of the client certificate"),
    "to_ms": Text("to"),
    "to_offset": Text("end offset"),
    "topic": Text("topic"),
    "topics": pgettext_lazy("name of a field", "topics"),
    "total": Text("total"),
    "traffic": Text("traffic"),
    "typed_confirm_messages": Text("name must be typed from (messages)"),
    "unit": Text("unit"),
    "unknown": Text("unknown outcome"),
    "unreadable": Text("unreadable"),
    "user": Text("person"),
    "username": Text("name"),
    "uses_tls": Text("TLS"),
    "value": Text("value"),
    "values": Text("values"),
    "verbs": Text("permissions"),
    "verified": Text("verified"),
    "webhook_host": Text("webhook"),
    "weekday": Text("weekday"),
    "written": Text("written"),
    "zone": Text("zone"),
}

# Who acted where it was no person: names that the audit stores in English, as REST, files and filters have them.
ACTORS: Mapping[str, Text] = {
    "system": Text("system"),
    "not signed in": Text("not signed in"),
    "unknown name": Text("unknown name"),
}


def actor_words(name: str) -> str:
    """Return the name of a person as it is, of the system and of a stranger in the reader's language."""
    words = ACTORS.get(name)
    return name if words is None else words.local()


def stored_actor(part: str) -> str:
    """Return what the audit stores for an actor in the reader's language; any other part of a name as it is."""
    return next((name for name, words in ACTORS.items() if part and part == words.local()), part)


def sentence_of(verb: str, subject: str, kind: str = "") -> Text:
    """Return what an event did, in the past tense, with its object; an unknown verb as it is.

    ``kind``: title of the kind of the event's plan, where the caller has it.
    """
    if kind and verb in KIND_VERBS:
        return KIND_VERBS[verb] % {"object": subject, "kind": kind}
    return AUDIT_VERBS.get(verb, Text.foreign(verb)) % {"object": subject}


def field_name(name: str) -> str:
    """Return the name of a field in words; one without is read as it is spelled."""
    words = FIELD_WORDS.get(name)
    if words is None:
        return name.replace("_", " ")
    return words.local() if isinstance(words, Text) else str(words)


def described(events: Iterable[Any]) -> Iterator[Any]:
    """Yield events whose sentences name the kind of the plan and the report, as the page does.

    Both belong to apps above this one: `console.plans` looks them up, for many events with one query.
    """
    describe = import_string(settings.DESCRIBE_EVENTS)
    remaining = iter(events)
    while some := list(islice(remaining, DESCRIBED_AT_ONCE)):
        describe(some)
        yield from some


def activity_file(events: QuerySet[Any]) -> StreamedResponse:
    """Stream the newest events as `activity.csv`, for the page and REST."""
    return streamed_file(described(events[:FILE_EVENTS_MAX].iterator()), ACTIVITY)
