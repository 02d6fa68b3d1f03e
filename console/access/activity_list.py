"""The list of audit events, newest first: columns for the page and for files, verbs of events."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from console.lists.spec import Column, ListSpec
from console.text import Text

ACTIVITY = ListSpec(
    name="activity",
    key="-at",
    default="-at",
    columns=(
        Column("at", Text("Time"), css="", fields=("at",)),
        Column("actor", Text("Who"), css="", fields=("actor", "token_prefix")),
        Column("verb", Text("Action"), css="", fields=("verb",)),
        Column("subject", Text("What"), css="", fields=("subject",)),
        Column("cluster", Text("Cluster"), css="p2", fields=("cluster",)),
        Column("plan", Text("Plan"), css="", fields=("plan_id",)),
        Column("from", Text("From"), css="p3", fields=("remote_addr",)),
        Column("detail", Text("Detail"), css="", is_bare=True, fields=("before", "after")),
    ),
)

# Kept in English; pages look the words up in the catalogue.
AUDIT_VERBS = frozenset(
    {
        # people, teams, rights
        _("add grant"),
        _("add person"),
        _("add team"),
        _("change grant"),
        _("change person"),
        _("change team"),
        _("create token"),
        _("password change failed"),
        _("remove grant"),
        _("remove person"),
        _("remove role"),
        _("remove team"),
        _("revoke token"),
        _("set password"),
        _("set role"),
        _("sign in"),
        _("sign in by link"),
        _("sign-in failed"),
        # clusters, reports, body schemas
        _("add cluster"),
        _("change SLO"),
        _("change cluster"),
        _("change schedule"),
        _("cluster not added"),
        _("remove body schema"),
        _("remove cluster"),
        _("run report"),
        _("set body schema"),
        # the demo
        _("stop demo broker"),
        _("start demo broker"),
        # plans and their jobs
        _("apply"),
        _("apply refused"),
        _("approve"),
        _("cancel"),
        _("discard"),
        _("job applied"),
        _("job fail"),
        _("job pause"),
        _("job resume"),
        _("job start"),
        _("job stop"),
        _("job verified"),
        _("pause"),
        _("plan"),
        _("rate"),
        _("resume"),
    }
)
