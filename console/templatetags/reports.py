"""A cell of a report's table, by the kind of its column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.safestring import SafeString

from console.figures import size
from console.templatetags import figures

register = template.Library()


@register.simple_tag(takes_context=True)
def report_cell(context: Mapping[str, Any], row: Any, column: Any) -> SafeString | str:
    """`{% report_cell row column %}`: a `console.report.models.ReportRow` and a `console.report.columns.Column`.

    A figure that is not there is unknown or does not apply: a dash.
    """
    value = row.figures[column.key] if column.key in row.figures else getattr(row, column.key, None)
    if value is None or value == "":
        return figures.NOT_APPLICABLE
    if column.kind == "moment":
        return figures.at(context, int(value))
    if column.kind == "percent":
        return f"{value:,.1f} %"
    if column.kind == "size":
        return size(int(value))
    return figures.figure(context, {column.key: value}, column.key, column.kind)
