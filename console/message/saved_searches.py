"""Searches that a person keeps under a name: saved, listed and removed by themselves only."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from console.message.forms import BrowseForm
from console.message.models import SEARCH_ADDRESS_MAX, SEARCH_NAME_MAX, SavedSearch
from console.text import Text

SEARCHES_MAX = 50
# What a search is; where its list was left (cursor) is not part of it.
PARTS = (*(name for name in BrowseForm.base_fields if name != "cursor"), "queue", "broker", "zone")


class SavedSearchForm(forms.Form):
    """A name and the address of the list: a search that could be run."""

    name = forms.CharField(
        max_length=SEARCH_NAME_MAX, error_messages={"required": Text("Enter a name for the search.")}
    )
    address = forms.CharField(max_length=SEARCH_ADDRESS_MAX)

    def clean_address(self) -> str:
        given, kept = QueryDict(self.cleaned_data["address"]), QueryDict(mutable=True)
        for part in PARTS:
            kept.setlist(part, given.getlist(part))
        if not kept.get("topic") or not BrowseForm(kept).is_valid():
            raise forms.ValidationError(
                Text("This search is not valid and cannot be saved. Run it first to see why.")
            )
        return kept.urlencode()


def saved_searches(user: Any, cluster: str) -> QuerySet[SavedSearch]:
    """Return a person's searches in a cluster, by name."""
    return SavedSearch.objects.filter(user=user, cluster=cluster)


def save_search(user: Any, cluster: str, name: str, address: str) -> Text:
    """Save a search, in place of the one with the same name; return why not, or an empty text."""
    others = saved_searches(user, cluster).exclude(name=name).count()
    if others >= SEARCHES_MAX:
        return Text(
            "You have %(most)s saved searches, the most for one person. Remove one first.", most=SEARCHES_MAX
        )
    SavedSearch.objects.update_or_create(user=user, cluster=cluster, name=name, defaults={"address": address})
    return Text()


def remove_search(user: Any, cluster: str, name: str) -> None:
    """Remove a search; one that does not exist is no error."""
    saved_searches(user, cluster).filter(name=name).delete()
