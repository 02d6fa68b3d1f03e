"""Values of a round have a field for each column of the row that stores them."""

from __future__ import annotations

from types import NoneType
from typing import get_args, get_type_hints

import pytest
from django.db import models
from msgspec import Struct

from console.lag.models import BrokerRow, GroupRow, PromiseCourse, TopicRow
from console.lag.promise_courses import CourseFigures
from console.lag.round.figures import BrokerFigures, GroupFigures, TopicFigures, Trend


@pytest.mark.parametrize(
    ("model", "figures"),
    [
        (GroupRow, GroupFigures),
        (TopicRow, TopicFigures),
        (BrokerRow, BrokerFigures),
        (PromiseCourse, CourseFigures),
    ],
)
def test_figures_are_the_columns_of_their_row(model: type[models.Model], figures: type[Struct]) -> None:
    columns = {one.attname: one for one in model._meta.concrete_fields if one.name not in ("id", "cluster")}
    kinds = get_type_hints(figures)
    assert set(figures.__struct_fields__) == columns.keys()
    may_be_null = {name for name, kind in kinds.items() if NoneType in get_args(kind)}
    assert may_be_null == {name for name, column in columns.items() if column.null}


def test_a_trend_has_a_point_for_each_minute() -> None:
    assert Trend().after(1, 0) == ((1,), 0)
    assert Trend((1,), 0).after(2, 59_999) == ((2,), 0)
    assert Trend((1,), 0).after(None, 180_000) == ((1, None, None, None), 3)
