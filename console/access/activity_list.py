"""The list of audit events, newest first: columns for the page and for files, sentences of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from console.lists.file import streamed_file
from console.lists.spec import Column, ListSpec
from console.text import Text
from console.web.streamed import StreamedResponse

# About 20 MB; more is a job for the database.
FILE_EVENTS_MAX = 100_000

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
        Column("from", Text("From"), css="p3", fields=("remote_addr",)),
        Column("detail", Text("Detail"), css="", is_bare=True, fields=("before", "after")),
    ),
)

# Stands for the object where a sentence is about none, as in the choices of a filter.
ANY = "…"
# Verb of an event → its sentence; pages, files and the filter's choices have it from here, REST gives the verb.
AUDIT_VERBS: Mapping[str, Text] = {
    # people, teams, rights
    "add grant": Text("Added the grant %(object)s", object=ANY),
    "add person": Text("Added the person %(object)s", object=ANY),
    "add team": Text("Added the team %(object)s", object=ANY),
    "change grant": Text("Changed the grant %(object)s", object=ANY),
    "change person": Text("Changed the person %(object)s", object=ANY),
    "change team": Text("Changed the team %(object)s", object=ANY),
    "create token": Text("Created the token %(object)s", object=ANY),
    "password change failed": Text("Password change failed: %(object)s", object=ANY),
    "remove grant": Text("Removed the grant %(object)s", object=ANY),
    "remove person": Text("Removed the person %(object)s", object=ANY),
    "remove role": Text("Removed the role %(object)s", object=ANY),
    "remove team": Text("Removed the team %(object)s", object=ANY),
    "revoke token": Text("Revoked the token %(object)s", object=ANY),
    "set password": Text("Set the password of %(object)s", object=ANY),
    "set role": Text("Set the rights of the role %(object)s", object=ANY),
    "sign in": Text("Signed in as %(object)s", object=ANY),
    "sign in by link": Text("Signed in by a link as %(object)s", object=ANY),
    "sign-in failed": Text("Sign-in failed: %(object)s", object=ANY),
    # masked fields
    "add mask": Text("Added the mask %(object)s", object=ANY),
    "change mask": Text("Changed the mask %(object)s", object=ANY),
    "remove mask": Text("Removed the mask %(object)s", object=ANY),
    "show masked fields": Text("Showed the masked fields of the message %(object)s", object=ANY),
    # clusters, reports, body schemas
    "add cluster": Text("Added the cluster %(object)s", object=ANY),
    "change SLO": Text("Changed the promise of group %(object)s", object=ANY),
    "change cluster": Text("Changed the settings of the cluster %(object)s", object=ANY),
    "change schedule": Text("Changed the schedule of the report %(object)s", object=ANY),
    "cluster not added": Text("Refused to add the cluster %(object)s", object=ANY),
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
    "job applied": Text("Job finished its changes, verification began: %(object)s", object=ANY),
    "job fail": Text("Job failed: %(object)s", object=ANY),
    "job pause": Text("Job was paused: %(object)s", object=ANY),
    "job resume": Text("Job was continued: %(object)s", object=ANY),
    "job start": Text("Job started: %(object)s", object=ANY),
    "job stop": Text("Job was cancelled: %(object)s", object=ANY),
    "job verified": Text("Job finished and was verified: %(object)s", object=ANY),
    "pause": Text("Paused the job for %(object)s", object=ANY),
    "plan": Text("Made a plan for %(object)s", object=ANY),
    "rate": Text("Changed the rate of the job for %(object)s", object=ANY),
    "resume": Text("Continued the job for %(object)s", object=ANY),
}


# Field of a changed value → its name on pages; a field without one is shown as it is stored.
FIELD_WORDS: Mapping[str, Text] = {
    "access_key": Text("access key"),
    "cadence": Text("cadence"),
    "cluster_pattern": Text("clusters"),
    "emails": Text("mail to"),
    "hour": Text("hour"),
    "is_active": Text("may sign in"),
    "is_on": Text("on"),
    "is_production": Text("production"),
    "is_superuser": Text("has every right"),
    "message_type": Text("message type"),
    "minute": Text("minute"),
    "name_pattern": Text("names"),
    "namesrv_addrs": Text("name servers"),
    "poll_interval_s": Text("collection interval, seconds"),
    "role": Text("role"),
    "secret_key": Text("secret key"),
    "security_token": Text("security token"),
    "second_person_messages": Text("messages from which a second person must approve"),
    "slo_ms": Text("no message waits longer than"),
    "target": Text("for this share of the time, in per cent"),
    "team": Text("team"),
    "time_zone": Text("time zone"),
    "tls_ca": Text("authorities of certificates"),
    "tls_certificate": Text("client certificate"),
    "tls_checks_host_name": Text("certificate must name the host"),
    "tls_key": Text("key of the client certificate"),
    "typed_confirm_messages": Text("messages from which the name must be typed"),
    "user": Text("person"),
    "username": Text("name"),
    "uses_tls": Text("TLS"),
    "webhook_host": Text("webhook"),
    "weekday": Text("weekday"),
    "zone": Text("zone"),
}


def sentence_of(verb: str, subject: str) -> Text:
    """Return what an event did, in the past tense, with its object; an unknown verb as it is."""
    return AUDIT_VERBS.get(verb, Text.foreign(verb)) % {"object": subject}


def activity_file(events: QuerySet[Any]) -> StreamedResponse:
    """Stream the newest events as `activity.csv`, for the page and REST."""
    return streamed_file(events[:FILE_EVENTS_MAX].iterator(), ACTIVITY)
