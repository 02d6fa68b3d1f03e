"""The list of audit events: its columns, for the page and for files; always newest first."""

from __future__ import annotations

from console.lists.spec import Column, ListSpec
from console.text import Text

ACTIVITY = ListSpec(
    name="activity",
    key="-at",
    default="-at",
    columns=(
        Column("at", Text("At"), css="", fields=("at",)),
        Column("actor", Text("Who"), css="", fields=("actor", "token_prefix")),
        Column("verb", Text("Did"), css="", fields=("verb",)),
        Column("subject", Text("What"), css="", fields=("subject",)),
        Column("cluster", Text("Cluster"), css="p2", fields=("cluster",)),
        Column("plan", Text("Plan"), css="", fields=("plan_id",)),
        Column("from", Text("From"), css="p3", fields=("remote_addr",)),
        Column("detail", Text("Detail"), css="", is_bare=True, fields=("before", "after")),
    ),
)
