"""A text as a value: the id of its sentence in the catalogue and the values of its places; words are made at the edge.

    Text("%(number)s queue(s) {stays|stay} as before: %(why)s", number=3, why=Text("nothing is stored"))

The id is the English sentence, so English needs no catalogue. ``(s)`` and ``{one|many}`` follow the number before
them. A value is a name or other foreign text as it is, a number, a duration, another text, or several texts that
stand one after another. A `Text` is a string, in English: for the audit, REST, the command line and logs. Put into
HTML, by a template or by `format_html`, it is in the reader's language and zone, as ``text.local()`` is. What is put
together of texts by string operations is a plain string and stays English; put texts into the places of a text.

To add a text, write it in the code that needs it, with a literal id, and its Chinese in ``locale/``:
docs/contributing.md.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, runtime_checkable

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext, pgettext
from msgspec import Struct, structs

from console.text.figures import clock, count, duration, latency, moment, zone_offset
from console.text.language import figure_words

PLACE = re.compile(r"%\((\w+)\)s|(\(s\))|(%%)|\{([^{}|]*)\|([^{}|]*)\}")
# A JSON object, where it is written or was just read.
JsonObject: TypeAlias = dict[str, Any]
FOREIGN_LENGTH_MAX = 300  # of an error's text: longer is a page, not a reason
FIRST_WIDE = (
    "\u2e80"  # from here on characters are as wide as they are high and need no space between sentences
)
SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration inside a text: ``3 h 12 m``."""

    duration_ms: int

    def __str__(self) -> str:
        return duration(self.duration_ms)

    def local(self) -> str:
        return figure_words(str(self))

    def html(self) -> str:
        return _unbroken(self.local())


@dataclass(frozen=True, slots=True)
class Latency:
    """A response time inside a text: ``210 ms``, from a second on as a duration."""

    latency_ms: int

    def __str__(self) -> str:
        return latency(self.latency_ms)

    def local(self) -> str:
        return figure_words(str(self))

    def html(self) -> str:
        return _unbroken(self.local())


@dataclass(frozen=True, slots=True)
class Moment:
    """A time inside a text: UTC where it is English; for a reader in the reader's zone, ``11 Mar 13:00:00 UTC+8``."""

    at_ms: int

    def __str__(self) -> str:
        return f"{_utc(self.at_ms):%Y-%m-%d %H:%M:%S} UTC"

    def local(self) -> str:
        return f"{_in_zone(self.at_ms)} {_zone_at(self.at_ms)}"

    def html(self) -> str:
        return _time_element(self.at_ms, "moment", _in_zone(self.at_ms)) + _zone_element(self.at_ms)


@dataclass(frozen=True, slots=True)
class Span:
    """The time between two moments inside a text: ``2026-03-11 09:00:12–11:42:03 UTC``; of one second, that second."""

    first_ms: int
    last_ms: int

    def __str__(self) -> str:
        first, last = _utc(self.first_ms), _utc(self.last_ms)
        if self._is_moment:
            return str(Moment(self.first_ms))
        if first.date() == last.date():
            return f"{first:%Y-%m-%d %H:%M:%S}–{last:%H:%M:%S} UTC"
        return f"{first:%Y-%m-%d %H:%M:%S} – {last:%Y-%m-%d %H:%M:%S} UTC"

    def local(self) -> str:
        if self._is_moment:
            return Moment(self.first_ms).local()
        between, _, last = self._end()
        return f"{_in_zone(self.first_ms)}{between}{last} {_zone_at(self.last_ms)}"

    def html(self) -> str:
        if self._is_moment:
            return Moment(self.first_ms).html()
        between, style, last = self._end()
        first = _time_element(self.first_ms, "moment", _in_zone(self.first_ms))
        return first + between + _time_element(self.last_ms, style, last) + _zone_element(self.last_ms)

    @property
    def _is_moment(self) -> bool:
        """Whether both ends are in one second: the words of two would be the same."""
        return self.first_ms // 1000 == self.last_ms // 1000

    def _end(self) -> tuple[str, str, str]:
        """Return what stands between, and style and words of the end: on the day of the start a time of day."""
        zone = get_current_timezone()
        first, last = (
            dt.datetime.fromtimestamp(ms / 1000, zone).date() for ms in (self.first_ms, self.last_ms)
        )
        if first == last:
            return "–", "clock", clock(self.last_ms, zone)
        return " – ", "moment", _in_zone(self.last_ms)


@dataclass(frozen=True, slots=True, init=False)
class Names:
    """Names inside a text: ``a, b`` in English, with the reader's sign between them."""

    names: tuple[str, ...]

    def __init__(self, names: Iterable[str]) -> None:
        object.__setattr__(self, "names", tuple(names))

    def __bool__(self) -> bool:
        return bool(self.names)

    def __str__(self) -> str:
        return ", ".join(self.names)

    def local(self) -> str:
        return pgettext("between names", ", ").join(self.names)

    def html(self) -> str:
        return escape(self.local())


Figure = Duration | Latency | Moment | Span | Names
# By the names of their fields: how a row stores them.
FIGURES: dict[frozenset[str], type[Figure]] = {
    frozenset(one.name for one in fields(kind)): kind for kind in (Duration, Latency, Moment, Span, Names)
}


def _utc(at_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_ms // 1000, dt.UTC)


def _in_zone(at_ms: int) -> str:
    """Return a moment in the zone of the reader: without its day if it is of today."""
    return figure_words(moment(at_ms, get_current_timezone(), now_ms=round(time.time() * 1000)))


def _zone_at(at_ms: int) -> str:
    return zone_offset(get_current_timezone(), at_ms)


def _unbroken(words: str) -> str:
    """Return a figure as HTML that no line break parts from its unit, nor the characters of a Chinese one."""
    if not words.isascii():
        return format_html('<span class="nowrap">{}</span>', words)
    return escape(words.replace(" ", "\u00a0"))


def _time_element(at_ms: int, style: str, words: str) -> str:
    return format_html('<time data-at="{}" data-as="{}">{}</time>', at_ms, style, words)


def _zone_element(at_ms: int) -> str:
    return format_html(" <span data-zone-name>{}</span>", _zone_at(at_ms))


@dataclass(frozen=True, slots=True)
class Voice:
    """How a text is put into words: the sentence, the names in it, its figures."""

    sentence: Callable[[str], str]
    name: Callable[[str], str]
    figure: Callable[[int | Figure], str]


class Text(str):
    """The id of a sentence and the values of its places: as a string it is English."""

    __slots__ = ("text", "values")
    text: str
    values: Mapping[str, Value]

    def __new__(cls, text: str = "", /, **values: Value) -> Text:
        self = super().__new__(cls, _rendered(text, values, ENGLISH))
        self.text, self.values = text, values
        return self

    def __str__(self) -> Text:
        """Return itself: a text stays one in an exception, a form field or a choice, which call ``str``."""
        return self

    def __html__(self) -> SafeString:
        """Return the words in the active language, escaped: templates and `format_html` call this."""
        return escape(self.local())

    def __mod__(self, values: Any) -> Text:
        """Fill placeholders, again if need be: Django formats the messages of validators this way."""
        named = {name: value for name, value in values.items() if f"%({name})s" in self.text}
        return Text(self.text, **{**self.values, **named}) if named else self

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (self.text, dict(self.values))

    def local(self) -> str:
        """Return the text in the language and zone of the reader."""
        return _rendered(self.text, self.values, LOCAL)

    def html(self, *, strong: bool = False) -> SafeString:
        """Return the text as HTML for the reader: times with their popover, ``strong``: figures and names in bold."""
        return SafeString(_rendered(self.text, self.values, STRONG if strong else HTML))

    @classmethod
    def foreign(cls, words: str | Names) -> Text:
        """Return text that is not ours, such as a broker's answer: the same in every language, but between names."""
        return cls("%(words)s", words=words) if words else cls()

    @classmethod
    def of_parts(cls, parts: Sequence[Text]) -> Text:
        """Join several texts, one after another."""
        return cls("%(parts)s", parts=tuple(parts)) if parts else cls()

    @classmethod
    def of_list(cls, parts: Sequence[Text]) -> Text:
        """Join several texts with commas."""
        if len(parts) < 2:
            return parts[0] if parts else cls()
        return Text("%(first)s, %(rest)s", first=parts[0], rest=cls.of_list(parts[1:]))

    @classmethod
    def of_names(cls, names: Sequence[str], most: int | None = None, *, others: int = 0) -> Text:
        """Join names: ``a``, ``a and b``, ``a, b and c``; beyond ``most`` names count them with the ``others``."""
        if most is not None and len(names) > most:
            names, others = names[:most], others + len(names) - most
        if others:
            return Text("%(names)s and %(number)s more", names=Names(names), number=others)
        if len(names) < 2:
            return cls.foreign("".join(names))
        return Text("%(names)s and %(last)s", names=Names(names[:-1]), last=names[-1])

    def put_as(self, others: Mapping[str, str]) -> Text:
        """Return the text with other sentences in the place of those with these ids, inside of values too."""
        values: dict[str, Value] = {}
        for name, value in self.values.items():
            if isinstance(value, tuple):
                values[name] = tuple(part.put_as(others) for part in value)
            else:
                values[name] = value.put_as(others) if isinstance(value, Text) else value
        return Text(others.get(self.text, self.text), **values)

    def as_json(self) -> JsonObject:
        """Return the text as rows store it."""
        return {"text": self.text, "values": {name: _json_of(value) for name, value in self.values.items()}}


@runtime_checkable
class Worded(Protocol):
    """A text of a package that does not import the console: an id and its values, as a `Text` has them."""

    text: str

    @property
    def values(self) -> Mapping[str, object]:
        """Return the values of the placeholders."""


def text_of(error: object) -> Text:
    """Return the text an error was raised with or consists of; foreign words as they are, as one short line."""
    words = error if isinstance(error, Text) else str(error)
    if isinstance(words, Text):
        return words
    if isinstance(error, Worded) and error.text:
        return Text(error.text, **{name: _value_from(value) for name, value in error.values.items()})
    line = " ".join(words.split())[:FOREIGN_LENGTH_MAX]
    if line or isinstance(error, str):
        return Text.foreign(line)
    return Text.foreign(type(error).__name__)


def _value_from(value: object) -> Text | str:
    return text_of(value) if isinstance(value, Worded | Exception) else str(value)


def _made_again(text: str, values: dict[str, Value]) -> Text:
    return Text(text, **values)


Value = str | int | Figure | Text | tuple[Text, ...]


def _same(words: str) -> str:
    return words


def _figure(value: int | Figure) -> str:
    return count(value) if isinstance(value, int) else str(value)


def _local_figure(value: int | Figure) -> str:
    return count(value) if isinstance(value, int) else value.local()


def _html_figure(value: int | Figure) -> str:
    return count(value) if isinstance(value, int) else value.html()


def _bold(words: str) -> str:
    return f"<strong>{words}</strong>"


ENGLISH = Voice(_same, _same, _figure)
LOCAL = Voice(gettext, _same, _local_figure)
HTML = Voice(lambda text: escape(gettext(text)), escape, _html_figure)
STRONG = Voice(HTML.sentence, lambda name: _bold(escape(name)), lambda value: _bold(_html_figure(value)))


def _rendered(text: str, values: Mapping[str, Value], voice: Voice) -> str:
    if not values:
        return voice.sentence(text).replace("%%", "%") if text else ""
    words = voice.sentence(text)
    names = _only_places(words)
    if names is not None and values.keys() >= names:
        return words % {name: _value_words(values[name], voice) for name in names}
    number: int | None = None

    def put_in(found: re.Match[str]) -> str:
        nonlocal number
        name, plural, percent, one, many = found.groups()
        if name is None:
            is_one = number == 1
            return "%" if percent else ("" if is_one else "s") if plural else one if is_one else many
        value = values.get(name, found[0])
        counted = value.values.values() if isinstance(value, Text) else (value,)
        number = next((each for each in counted if isinstance(each, int)), number)
        return _value_words(value, voice)

    return PLACE.sub(put_in, words)


@lru_cache(4_096)  # of a catalogue; a round makes tens of thousands of texts of a few ids
def _only_places(words: str) -> frozenset[str] | None:
    """Return the placeholders of a text that has nothing else to fill in: no plural and no percent sign."""
    names = [found[1] for found in PLACE.finditer(words)]
    return None if None in names or words.count("%") != len(names) else frozenset(names)


def _value_words(value: Value, voice: Voice) -> str:
    if isinstance(value, Text):
        return _rendered(value.text, value.values, voice)
    if isinstance(value, str):
        return voice.name(value)
    if isinstance(value, tuple):
        return _together([_value_words(part, voice) for part in value])
    return voice.figure(value)


def _together(parts: Sequence[str]) -> str:
    """Join sentences with a blank, or with nothing in Chinese; join other texts with a semicolon."""
    joined = ""
    for part in filter(None, parts):
        is_wide = joined[-1:] >= FIRST_WIDE
        if joined.endswith(SENTENCE_ENDS):
            joined += "" if is_wide else " "
        elif joined:
            joined += "；" if is_wide else "; "
        joined += part
    return joined


# --- In rows ------------------------------------------------------------------------------------------------


def _json_of(value: Value) -> Any:
    if isinstance(value, Text):
        return value.as_json()
    if isinstance(value, Figure):
        return asdict(value)
    return [part.as_json() for part in value] if isinstance(value, tuple) else value


def with_json(value: Any) -> Any:
    """Return a JSON value with each text in it as rows store it."""
    if isinstance(value, Text):
        return value.as_json()
    if isinstance(value, Struct):
        value = structs.asdict(value)
    elif is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        return {name: with_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [with_json(each) for each in value]
    return value


def in_words(value: Any) -> Any:
    """Return a JSON value with each text in it in the active language."""
    if isinstance(value, Text):
        return value.local()
    if isinstance(value, dict):
        return {name: in_words(each) for name, each in value.items()}
    return [in_words(each) for each in value] if isinstance(value, list) else value


def of_json(value: JsonObject) -> Any:
    """Decode a JSON object: a text written by `Text.as_json`, any other unchanged (``object_hook``)."""
    if value.keys() != {"text", "values"} or not isinstance(value["values"], dict):
        return value
    return Text(str(value["text"]), **{name: _value_of(each) for name, each in value["values"].items()})


def kept_text(value: Text | str) -> Text:
    """Return the text of a decoded value; a plain sentence of an earlier version is a text without values."""
    return value if isinstance(value, Text) else Text(value)


def _value_of(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict) and (kind := FIGURES.get(frozenset(value))):
        return kind(**value)
    return value if isinstance(value, Text | int) else str(value)
