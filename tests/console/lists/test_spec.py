"""A declared list: its orders, its file, and that the page's cells fit its columns."""

from __future__ import annotations

import dataclasses

import pytest
from django.test import RequestFactory

from console.lists.query import ListQuery
from console.lists.spec import Choice, Column, Filter, ListSpec
from console.text import Text


@dataclasses.dataclass(frozen=True)
class Part:
    rate: float | None


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    lag: int | None
    part: Part
    brokers: tuple[str, ...] = ()


FEW = ListSpec(
    name="test-few",
    key="name",
    default="-lag",
    columns=(
        Column("name", Text("Name"), order=lambda row: row.name, ascending=True, fields=("name",)),
        Column("lag", Text("Lag"), order=lambda row: row.lag, fields=("lag", "part.rate")),
        Column("trend", Text("1 h")),
    ),
    filters=(Filter("state", (Choice("open", Text("Open")), Choice("done", Text("Done")))),),
    file_fields=("brokers",),
)
STORED = ListSpec(
    name="test-stored",
    key="topic",
    default="topic",
    columns=(
        Column("topic", Text("Topic"), order=("topic",), ascending=True),
        Column("queues", Text("Queues"), order=("read_queues", "write_queues")),
    ),
    orders={"loss": ("time_to_loss_ms",)},
)
ROWS = [
    Row("a", None, Part(1.5)),
    Row("b", 2, Part(None), ("x", "y")),
    Row("c", 7, Part(0.0)),
    Row("=d", 2, Part(2.0)),
]


def asked(address: str, spec: ListSpec = FEW) -> ListQuery:
    return ListQuery.of(RequestFactory().get(address), spec)


@pytest.mark.parametrize(
    ("sort", "descending", "names"),
    [
        ("", None, ["c", "b", "=d", "a"]),
        ("lag", False, ["b", "=d", "c", "a"]),
        ("name", None, ["=d", "a", "b", "c"]),
        ("name", True, ["c", "b", "a", "=d"]),
        ("trend", None, ["c", "b", "=d", "a"]),
    ],
)
def test_unknown_is_last_both_ways_and_a_wrong_order_is_the_default(
    sort: str, descending: bool | None, names: list[str]
) -> None:
    assert [row.name for row in FEW.in_order(ROWS, sort, descending)] == names


def test_every_order_of_a_query_ends_in_the_key() -> None:
    def columns(sort: str, descending: bool | None = None) -> list[tuple[str, bool]]:
        return [(one.expression.name, one.descending) for one in STORED.order_by(sort, descending)]

    assert columns("") == [("topic", False)]
    assert columns("topic", True) == [("topic", True)]
    assert columns("queues") == [("read_queues", True), ("write_queues", True), ("topic", False)]
    assert columns("loss", False) == [("time_to_loss_ms", False), ("topic", False)]
    assert all(one.nulls_last for one in STORED.order_by("loss")[:1])
    assert [STORED.live_field(sort) for sort in ("topic", "queues", "loss")] == [
        "",
        "read_queues",
        "time_to_loss_ms",
    ]


def test_a_file_has_every_field_and_no_formula() -> None:
    assert list(FEW.csv(ROWS)) == [
        "name,lag,rate,brokers\r\n",
        "a,,1.5,\r\n",
        "b,2,,x y\r\n",
        "c,7,0.0,\r\n",
        "'=d,2,2.0,\r\n",
    ]


def test_an_address_is_read_or_falls_back() -> None:
    assert asked("/?q=+x+&sort=name&dir=desc&page=3&rows=25&state=done&format=csv") == ListQuery(
        query="x", sort="name", descending=True, page=3, per_page=25, filters={"state": "done"}, is_whole=True
    )
    assert asked("/?sort=nothing&dir=up&page=-1&rows=7&state=else&format=pdf") == ListQuery(
        sort="lag", descending=True
    )
    assert asked("/?sort=name") == ListQuery(sort="name", descending=False)
    assert asked("/", STORED) == ListQuery(sort="topic", descending=False)
