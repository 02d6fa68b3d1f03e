"""What a view gives a template: names and values, which nothing in Python reads again; and the tab it shows."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from django.http import Http404, HttpRequest

from console.text import Names, Text

PageContext: TypeAlias = dict[str, Any]


def chosen_tab(request: HttpRequest, tabs: Mapping[str, Text]) -> str:
    """Return the tab that `?tab=` selects, else the first. Raises Http404 for one that the page does not have."""
    chosen = request.GET.get("tab") or next(iter(tabs))
    if chosen not in tabs:
        raise Http404(
            Text("This page has no tab “%(tab)s”. Its tabs are %(tabs)s.", tab=chosen, tabs=Names(tabs))
        )
    return chosen
