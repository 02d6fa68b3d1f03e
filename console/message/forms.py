"""The form of the message browser: a topic, where to begin, and filters.

Everything is in the address; the page, its socket and its exports all read it with this form.
"""

from __future__ import annotations

from django import forms
from django.http import QueryDict

from console.message.search.body_match import KIND_NAMES, TEXT_LENGTH_MAX, Match, MatchRefused, read_match
from console.message.search.cursor import TEXT_LENGTH_MAX as CURSOR_LENGTH_MAX
from console.message.search.query import Query, QueryRefused, tags_of
from console.text import Names, Text, text_of
from console.text.moment_field import MomentField

# Where to begin: the value in addresses and its label; a topic alone means newest.
READS = (
    ("tail", Text("Live tail")),
    ("newest", Text("Newest")),
    ("time", Text("From time")),
    ("offset", Text("From offset")),
    ("key", Text("Key")),
    ("id", Text("Message id")),
    ("unique", Text("Unique key")),
)
LOOKUPS = frozenset({"key", "id", "unique"})  # answered by the brokers' index, not by reading queues
QUEUES_MAX = 500
SQL_LENGTH_MAX = 2_000
OFFSET_MAX = 2**63 - 1


class BrowseForm(forms.Form):
    """`?topic=…&read=…&queue=broker-a:3&broker=broker-b&tag=a || b&sql=…&find_in=json&find=…&since=…&cursor=…`."""

    topic = forms.CharField(required=False, max_length=255)
    read = forms.ChoiceField(choices=READS, required=False)
    tag = forms.CharField(required=False, max_length=1_000)
    sql = forms.CharField(required=False, max_length=SQL_LENGTH_MAX)
    since = MomentField(required=False)
    until = MomentField(required=False)
    offset = forms.IntegerField(required=False, min_value=0, max_value=OFFSET_MAX)
    key = forms.CharField(required=False, max_length=255)
    id = forms.CharField(required=False, max_length=255)
    find_in = forms.CharField(required=False, max_length=20)
    find = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX, strip=False)
    cursor = forms.CharField(required=False, max_length=CURSOR_LENGTH_MAX)

    def clean_read(self) -> str:
        return self.cleaned_data["read"] or "newest"

    def clean_find_in(self) -> str:
        kind = self.cleaned_data["find_in"] or "body"
        if kind not in KIND_NAMES:
            raise forms.ValidationError(
                Text("Unknown kind of search. Choose one of: %(names)s.", names=Names(sorted(KIND_NAMES)))
            )
        return kind

    def clean_tag(self) -> str:
        try:
            return " || ".join(tags_of(self.cleaned_data["tag"]))
        except QueryRefused as refusal:
            raise forms.ValidationError(text_of(refusal)) from refusal

    def clean(self) -> None:
        super().clean()
        cleaned = self.cleaned_data
        read = cleaned.get("read") or "newest"
        needs = {
            "time": ("since", Text("a time")),
            "offset": ("offset", Text("an offset")),
            "key": ("key", Text("a key")),
            "id": ("id", Text("an id")),
            "unique": ("id", Text("a unique key")),
        }.get(read)
        if needs and cleaned.get(needs[0]) in (None, "") and needs[0] not in self.errors:
            self.add_error(needs[0], Text("Enter %(what)s: this search needs it.", what=needs[1]))
        if read != "id" and not cleaned.get("topic") and self.data.get("read"):
            self.add_error("topic", Text("Enter a topic."))
        cleaned["queues"], cleaned["brokers"] = self._queues(), frozenset(self._list("broker"))
        cleaned["match"] = self._match()

    def _list(self, name: str) -> list[str]:
        data = self.data
        values = data.getlist(name) if isinstance(data, QueryDict) else [str(data.get(name) or "")]
        return [value.strip() for value in values[:QUEUES_MAX] if value.strip()]

    def _queues(self) -> frozenset[tuple[str, int]]:
        found = set()
        for text in self._list("queue"):
            name, _, number = text.rpartition(":")
            if not name or not number.isascii() or not number.isdigit() or len(number) > 9:
                self._refuse(
                    "queue", Text("Enter a queue as broker name, colon and number, like broker-a:3.")
                )
                return frozenset()
            found.add((name, int(number)))
        return frozenset(found)

    def _match(self) -> Match | None:
        cleaned = self.cleaned_data
        if "find_in" not in cleaned or "find" not in cleaned:
            return None
        try:
            return read_match(cleaned["find_in"], cleaned["find"])
        except MatchRefused as refusal:
            self._refuse("find", text_of(refusal))
            return None

    def _refuse(self, name: str, words: Text) -> None:
        """Add an error for a repeatable parameter, which is no Django field."""
        self.errors.setdefault(name, self.error_class()).append(words)

    def query(self) -> Query:
        """Return the search; only for a valid form whose ``read`` is no lookup."""
        cleaned = self.cleaned_data
        read = cleaned["read"]
        return Query(
            cleaned["topic"],
            newest=read in ("newest", "tail"),
            queues=cleaned["queues"],
            brokers=cleaned["brokers"],
            from_ms=cleaned["since"] if read == "time" else None,
            to_ms=cleaned["until"] if read == "time" else None,
            from_offset=cleaned["offset"] if read == "offset" else None,
            tags=tags_of(cleaned["tag"]),
            sql=cleaned["sql"].strip(),
            match=cleaned["match"],
        )


def refusals(form: forms.Form) -> Text:
    """Return the errors of a form as one text; empty for a valid form."""
    found = [error for errors in form.errors.values() for error in errors]
    return Text.of_parts([each if isinstance(each, Text) else Text.foreign(str(each)) for each in found])


def place_of(text: str) -> tuple[str, int, int] | None:
    """Parse `broker-a:3:88204118` to (broker name, queue id, queue offset)."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not _is_number(parts[1], 9) or not _is_number(parts[2], 18):
        return None
    return parts[0], int(parts[1]), int(parts[2])


def _is_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits
