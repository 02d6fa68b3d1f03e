"""Sentences that code writes in English, said in the reader's language where a page shows them.

Plans, findings, reasons and errors are sentences with figures and names in them. They are kept in the database, in
audits, and given by REST and the command line, so code writes them in English, once. A page says them anew: the
English of each kind of sentence stands in `console.text.kept_sentences` with named places, is found again in the text,
and its translation gets the same names and figures. What is not listed stays English.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language, gettext
from django.views.decorators.http import require_safe

from console.text.kept_sentences import SENTENCES
from console.text.language import figure_words, is_english

PLACE = re.compile(r"%\((\w+)\)s|\(s\)|%%|\{([^{}|]*\|[^{}]*)\}")
NAMES = re.compile(r"(\S+(?:, \S+)*) and (\S+)")
HELD = r"(?:(?![.!?] [A-Z“]).)"  # what a place may hold: not the end of a sentence
NEXT_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z“])")
GENERAL = frozenset({"%(sentence)s.", "%(names)s and %(last)s"})  # fit nearly every text: tried by hand
CACHE_TEXTS = 8_192
SAID_AGE_S = 600
LENGTH_MAX = 1_000  # longer texts are not ours
# A sentence holds a reason, which holds a name list: what nests deeper was typed to keep us busy.
DEPTH_MAX = 4


@dataclass(frozen=True, slots=True)
class Pattern:
    """One listed sentence with places; ``anchor`` is fixed text of it, which a text must contain to match."""

    sentence: str
    anchor: str
    expression: re.Pattern[str]

    def places_in(self, text: str) -> dict[str, str] | None:
        found = self.expression.fullmatch(text) if self.anchor in text else None
        return None if found is None else found.groupdict()


@functools.cache
def _patterns() -> list[Pattern]:
    """Every listed sentence as a pattern: the one with most fixed text is tried first."""
    by_fixed_text = sorted(SENTENCES - GENERAL, key=lambda each: -len(PLACE.sub("", each)))
    return [
        Pattern(each, anchor_of(each), re.compile(pattern_of(each), re.S))
        for each in by_fixed_text
        if PLACE.search(each)
    ]


@functools.cache
def _most_together() -> int:
    """How many sentences at most are listed as one."""
    return 1 + max(len(NEXT_SENTENCE.findall(PLACE.sub("X", each))) for each in SENTENCES)


def anchor_of(sentence: str) -> str:
    """The longest text between two places."""
    return max(PLACE.sub("\n", sentence).split("\n"), key=len)


def pattern_of(sentence: str) -> str:
    """`%(n)s queue(s) {is|are} full` finds `1 queue is full` and `12 queues are full`; a place holds something.

    A place ends where the fixed text behind it is found first, for good (an atomic group): the time grows with the
    length of the text and not with a power of it, whatever the text is.
    """
    parts, end, is_open, is_fixed = [], 0, False, False
    for found in PLACE.finditer(sentence):
        fixed = sentence[end : found.start()]
        parts.append(re.escape(fixed))
        is_fixed = is_fixed or bool(fixed)
        if found[1]:
            if is_open and is_fixed:
                parts.append(")")
            if not is_open or is_fixed:
                parts.append("(?>")
            parts.append(f"(?P<{found[1]}>{HELD}+?)")
            is_open, is_fixed = True, False
        elif found[2]:
            parts.append(f"(?:{'|'.join(map(re.escape, found[2].split('|')))})")
            is_fixed = True
        else:
            parts.append({"(s)": "s?", "%%": "%"}[found[0]])
            is_fixed = is_fixed or found[0] == "%%"
        end = found.end()
    return "".join(parts) + re.escape(sentence[end:]) + (r"\Z)" if is_open else "")


def said(text: str) -> str:
    """A text that code wrote, in the reader's language."""
    if hasattr(text, "local"):
        return str(text.local())
    if is_english() or not text or len(text) > LENGTH_MAX:
        return text
    return _said(get_language() or settings.LANGUAGE_CODE, text, DEPTH_MAX)


@require_safe
def say(request: HttpRequest) -> HttpResponse:
    """GET ?text=: a text that came live, in the reader's language. What is published is the same for every browser, so
    it is English; a popover that is opened asks for its words here.
    """
    text = said(request.GET.get("text", "")[:LENGTH_MAX])
    headers = {"Cache-Control": f"private, max-age={SAID_AGE_S}", "Vary": "Cookie, Accept-Language"}
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


@functools.lru_cache(CACHE_TEXTS)
def _said(language: str, text: str, depth: int) -> str:
    """``depth``: how many places within places are still looked into."""
    if depth == 0:
        return text
    parts = NEXT_SENTENCE.split(text)
    if len(parts) == 1:
        return _one_said(language, text, depth)
    said_parts, first = [], 0
    while first < len(parts):
        for last in range(min(len(parts), first + _most_together()), first, -1):
            together = " ".join(parts[first:last])
            whole = _sentence(language, together, depth)
            if whole is None and last == first + 1:
                whole = _one_said(language, together, depth)
            if whole is not None:
                said_parts.append(whole)
                first = last
                break
    return "".join(f"{one} " if one.isascii() else one for one in said_parts).strip()


def _one_said(language: str, text: str, depth: int) -> str:
    """One sentence, or a part of one."""
    whole = _sentence(language, text, depth)
    if whole is not None:
        return whole
    if text.endswith(".") and (whole := _sentence(language, text[:-1], depth)) is not None:
        return gettext("%(sentence)s.") % {"sentence": whole}
    if names := NAMES.fullmatch(text):
        return gettext("%(names)s and %(last)s") % {"names": names[1], "last": names[2]}
    return figure_words(text)


def _sentence(language: str, text: str, depth: int) -> str | None:
    """None for a text that is not one of the listed sentences."""
    plain = text.replace("%", "%%")
    if plain and ((found := gettext(plain)) != plain or plain in SENTENCES):
        return found % {}
    for pattern in _patterns():
        places = pattern.places_in(text)
        if places is not None:
            return gettext(pattern.sentence) % {
                name: _said(language, part, depth - 1) for name, part in places.items()
            }
    return None
