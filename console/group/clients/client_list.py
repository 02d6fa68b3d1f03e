"""The list of a cluster's clients: the members of every group at the last sweep, for page, REST and file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import NamedTuple

from django.db.models import Count, Q, QuerySet

from console.access.name_scope import EVERYTHING, NameScope
from console.brokers.mqadmin import is_retry_topic
from console.group.clients.throughput import NEVER_COMMITTED, NO_OWNER, NOT_REPORTED
from console.lag.models import ClientRow, GroupRow
from console.lag.round.figures import ClientFigures
from console.lag.rows import queues
from console.lag.rows.broadcast import BROADCASTING
from console.lag.rows.popped import held_queues
from console.lag.rows.queue_row import NO_REASON
from console.lists.page import Page, count_if, cut
from console.lists.query import ListQuery
from console.lists.spec import MSGS, Choice, Column, Filter, ListSpec
from console.text import Text
from console.text.stored import of_json

# As clients report them (LanguageCode.java); one of another name is found by the search.
LANGUAGES = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "GO", "RUST", "NODE_JS", "PHP", "RUBY", "ERLANG", "DELPHI"),
    *("HTTP", "OMS", "OTHER"),
)
NOT_READ = Text("the last round did not read these queues")
# How a group consumes, as columns of its row.
MODES = {
    "clustering": Q(model="CLUSTERING") & ~Q(consume_mode__in=("ORDERLY", "POP")),
    "broadcasting": Q(model=BROADCASTING),
    "orderly": Q(consume_mode="ORDERLY"),
    "pop": Q(consume_mode="POP"),
}
CLIENTS = ListSpec(
    name="clients",
    key="pk",
    default="group",
    columns=(
        Column("client", Text("Client"), css="", order=("client_id",), ascending=True, fields=("client_id",)),
        Column(
            "group", Text("Group"), css="", order=("group", "client_id"), ascending=True, fields=("group",)
        ),
        Column("address", Text("Address"), css="", order=("address",), ascending=True, fields=("address",)),
        Column(
            "language", Text("Language"), css="", order=("language",), ascending=True, fields=("language",)
        ),
        Column("version", Text("Version"), css="", order=("version",), ascending=True, fields=("version",)),
        Column("mode", Text("Mode"), css="p3", fields=("model", "consume_mode")),
        Column("queues", Text("Queues"), fields=("queue_count",)),
        Column("lag", Text("Lag"), MSGS, order=attrgetter("lag"), fields=("lag", "lag_lower_bound")),
        Column("started", Text("Started"), order=("started_at_ms",), fields=("started_at_ms",)),
    ),
    filters=(
        Filter(
            "state",
            (
                Choice("idle", Text("Without a queue"), Q(queues=[])),
                Choice("silent", Text("Did not report"), Q(queues__isnull=True)),
            ),
        ),
        # Groups have it: `client_page` adds the condition.
        Filter(
            "mode",
            (
                Choice("clustering", Text("Clustering")),
                Choice("broadcasting", Text("Broadcasting")),
                Choice("orderly", Text("Orderly")),
                Choice("pop", Text("POP")),
            ),
        ),
        Filter(
            "language",
            tuple(Choice(one, Text.foreign(one), Q(language=one)) for one in LANGUAGES),
        ),
    ),
    file_fields=("proxy", "reason", "read_at_ms"),
)


@dataclass(frozen=True, slots=True)
class ListedClient:
    """A member at the last sweep, its group's mode, and its lag in the last round.

    `queue_count` None: it did not report its queues. `lag` None is unknown, `reason` why; where `status` is
    NEVER_COMMITTED it does not apply, to a member without a queue of its own for one.
    """

    row: ClientRow
    group: str
    client_id: str
    address: str
    language: str
    version: str
    proxy: str
    started_at_ms: int | None
    reason: Text
    read_at_ms: int
    model: str = ""
    consume_mode: str = ""
    queue_count: int | None = None
    lag: int | None = None
    lag_lower_bound: bool = False
    status: str = ""

    @property
    def queues(self) -> object:
        return self.row.queues

    @property
    def subscription(self) -> object:
        return self.row.subscription


OF_ROW = tuple(one.name for one in fields(ListedClient)[1:10])


@dataclass(frozen=True, slots=True)
class ClientPage(Page[ListedClient]):
    """One page of clients; how many that match the query each value of each filter would show."""

    counts_by_filter: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class _Lag(NamedTuple):
    """The lag of a client, None where unknown or not applicable; `status` as of `ListedClient`."""

    lag: int | None = None
    lag_lower_bound: bool = False
    status: str = ""
    reason: Text = Text()


def client_page(
    cluster: str, list_query: ListQuery, *, group: str = "", scope: NameScope = EVERYTHING
) -> ClientPage:
    """Return one page of the members of a group, or of all groups of a scope, RocketMQ's own included.

    The search words are part of the client id, the group, the address, the language or the version.
    """
    parts = ("client_id", "group", "address", "language", "version")
    named = Q(*((f"{part}__icontains", list_query.query) for part in parts), _connector=Q.OR)
    whole = ClientRow.objects.filter(cluster=cluster, **({"group": group} if group else {}))
    whole = whole.filter(named) if list_query.query else whole
    found = scope.filter(whole, "group")
    conditions = _conditions(cluster)
    counts, all_total = _counts(found, conditions)
    for name, value in list_query.filters.items():
        found = found.filter(conditions[name][value])
    total = found.count() if list_query.filters else all_total
    sort, descending = CLIENTS.ordering(list_query.sort, list_query.descending)
    page = cut(
        _by_lag(cluster, found, descending)
        if sort == "lag"
        else found.order_by(*CLIENTS.order_by(sort, descending)),
        page=list_query.page,
        per_page=list_query.per_page,
        total=total,
        all_total=all_total,
        not_shown=0 if scope.is_everything else whole.count() - all_total,
        is_whole=list_query.is_whole,
    )
    rows = page.rows
    if sort == "lag":
        by_pk = ClientRow.objects.in_bulk(page.rows)
        rows = [by_pk[pk] for pk in page.rows if pk in by_pk]
    found_now = {each.name: getattr(page, each.name) for each in fields(page)}
    return ClientPage(**found_now | {"rows": _listed(cluster, rows)}, counts_by_filter=counts)


Conditions = Mapping[str, Mapping[str, Q]]


def _conditions(cluster: str) -> Conditions:
    """Return the conditions of every filter for one cluster."""
    groups = GroupRow.objects.filter(cluster=cluster)
    return {
        each.name: {
            choice.value: Q(group__in=groups.filter(MODES[choice.value]).values("group"))
            if choice.condition is None
            else choice.condition
            for choice in each.choices
        }
        for each in CLIENTS.filters
    }


def _counts(rows: QuerySet[ClientRow], conditions: Conditions) -> tuple[dict[str, dict[str, int]], int]:
    """Return how many of the rows each value of each filter leaves, and how many there are; two queries."""
    counted = rows.aggregate(
        all=Count("pk"),
        **{
            f"{name}_{value}": count_if(condition)
            for name, values in conditions.items()
            if name != "language"
            for value, condition in values.items()
        },
    )
    languages = dict(rows.order_by().values_list("language").annotate(count=Count("pk")))
    return {
        name: {
            value: languages.get(value, 0) if name == "language" else counted[f"{name}_{value}"]
            for value in values
        }
        for name, values in conditions.items()
    }, counted["all"]


def _by_lag(cluster: str, rows: QuerySet[ClientRow], descending: bool) -> list[int]:
    """Return the keys of all rows by lag, unknown last; of equal lag in the order of their keys."""
    lags = queues.lag_by_owner(cluster)
    lags |= {key: one.lag for key, one in _progress(cluster).items()}
    sign = -1 if descending else 1
    known: list[tuple[int, int]] = []
    unknown: list[int] = []
    # Pairs of numbers sort in a third of the time of rows with a key function: a cluster has 20,000 clients.
    for pk, group, client_id in rows.order_by("pk").values_list("pk", "group", "client_id"):
        lag = lags.get((group, client_id))
        if lag is None:
            unknown.append(pk)
        else:
            known.append((sign * lag, pk))
    return [pk for _, pk in sorted(known)] + unknown


def _progress(cluster: str, groups: Collection[str] | None = None) -> dict[tuple[str, str], ClientFigures]:
    """Return the figures of members of broadcasting groups by group and client; `groups` None: of all."""
    rows = GroupRow.objects.filter(cluster=cluster, model=BROADCASTING)
    rows = rows if groups is None else rows.filter(group__in=groups)
    return {
        (group, one.client_id): one
        for group, stored in rows.values_list("group", "client_progress")
        for one in of_json(list[ClientFigures], stored)
    }


def _listed(cluster: str, rows: Sequence[ClientRow]) -> list[ListedClient]:
    """Return the rows of a page with mode and lag; three queries."""
    groups = {row.group for row in rows}
    modes = {
        group: (model, mode)
        for group, model, mode in GroupRow.objects.filter(cluster=cluster, group__in=groups).values_list(
            "group", "model", "consume_mode"
        )
    }
    behind, progress = queues.by_owner(cluster, groups), _progress(cluster, groups)
    found = []
    for row in rows:
        model, mode = modes.get(row.group, ("", ""))
        key = row.group, row.client_id
        lag = _reported(progress.get(key)) if model == BROADCASTING else _of_queues(row, behind.get(key))
        reported = {name: getattr(row, name) for name in OF_ROW}
        held = held_queues(row.queues)
        found.append(
            ListedClient(
                row,
                **reported | {"reason": row.reason or lag.reason},
                model=model,
                consume_mode=mode,
                queue_count=None if held is None else sum(not is_retry_topic(one.topic) for one in held),
                lag=lag.lag,
                lag_lower_bound=lag.lag_lower_bound,
                status=lag.status,
            )
        )
    return found


def _reported(known: ClientFigures | None) -> _Lag:
    """Return the lag of a member of a broadcasting group: only it knows its offsets."""
    if known is None:
        return _Lag(reason=NOT_REPORTED)
    return _Lag(known.lag, known.lag_lower_bound, reason=known.reason)


def _of_queues(row: ClientRow, behind: queues.Behind | None) -> _Lag:
    """Return the lag over the queues that a member owns."""
    if row.queues is None:
        return _Lag(reason=NOT_REPORTED)
    if behind is None:
        return _Lag(reason=NO_OWNER) if row.queues else _Lag(status=NEVER_COMMITTED)
    is_known = behind.lag is not None and not behind.lag_lower_bound
    return _Lag(behind.lag, behind.lag_lower_bound, reason=NO_REASON if is_known else NOT_READ)
