"""Sentences that code writes in English, said in the reader's language where a page shows them.

Plans, findings, reasons and errors are sentences with figures and names in them. They are kept in the database, in
audits, and given by REST and the command line, so code writes them in English, once. A page says them anew: the
English of each kind of sentence stands in `console.kept_sentences` with named places, is found again in the text,
and its translation gets the same names and figures. What is not listed stays English.
"""

from __future__ import annotations

import functools
import re

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language, gettext
from django.views.decorators.http import require_safe

from console.kept_sentences import SENTENCES
from console.language import figure_words, is_english

PLACE = re.compile(r"%\((\w+)\)s|\(s\)|%%|\{([^{}|]*\|[^{}]*)\}")
NAMES = re.compile(r"(\S+(?:, \S+)*) and (\S+)")
HELD = r"(?:(?![.!?] [A-Z“]).)"  # what a place may hold: not the end of a sentence
NEXT_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z“])")
GENERAL = frozenset({"%(sentence)s.", "%(names)s and %(last)s"})  # fit nearly every text: tried by hand
CACHE_TEXTS = 8_192
SAID_AGE_S = 600
LENGTH_MAX = 1_000  # longer texts are not ours; the search is quadratic in what somebody typed


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Every listed sentence as a pattern: the one with most fixed text is tried first."""
    by_fixed_text = sorted(SENTENCES - GENERAL, key=lambda each: -len(PLACE.sub("", each)))
    return [(re.compile(pattern_of(each), re.S), each) for each in by_fixed_text if PLACE.search(each)]


def pattern_of(sentence: str) -> str:
    """`%(n)s queue(s) {is|are} full` finds `1 queue is full` and `12 queues are full`; a place holds something."""
    parts, end = [], 0
    for found in PLACE.finditer(sentence):
        parts.append(re.escape(sentence[end : found.start()]))
        words = (
            f"(?:{'|'.join(map(re.escape, found[2].split('|')))})"
            if found[2]
            else f"(?P<{found[1]}>{HELD}+?)"
        )
        parts.append({"(s)": "s?", "%%": "%"}.get(found[0], words))
        end = found.end()
    return "".join(parts) + re.escape(sentence[end:])


def said(text: str) -> str:
    """A text that code wrote, in the reader's language."""
    if is_english() or not text or len(text) > LENGTH_MAX:
        return text
    return _said(get_language() or settings.LANGUAGE_CODE, text)


@require_safe
def say(request: HttpRequest) -> HttpResponse:
    """GET ?text=: a text that came live, in the reader's language. What is published is the same for every browser, so
    it is English; a popover that is opened asks for its words here.
    """
    text = said(request.GET.get("text", "")[:LENGTH_MAX])
    headers = {"Cache-Control": f"private, max-age={SAID_AGE_S}", "Vary": "Cookie, Accept-Language"}
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


@functools.lru_cache(CACHE_TEXTS)
def _said(language: str, text: str) -> str:
    whole = _sentence(language, text)
    if whole is not None:
        return whole
    parts = NEXT_SENTENCE.split(text)
    for most in range(len(parts) - 1, 1, -1):  # two sentences that are listed as one, before or after others
        for first in range(len(parts) - most + 1):
            whole = _sentence(language, " ".join(parts[first : first + most]))
            if whole is not None:
                rest = [" ".join(parts[:first]), " ".join(parts[first + most :])]
                return whole.join(_said(language, one) if one else "" for one in rest)
    if len(parts) > 1:
        return "".join(
            f"{one} " if one.isascii() else one for one in (_said(language, part) for part in parts)
        ).strip()
    if text.endswith(".") and (whole := _sentence(language, text[:-1])) is not None:
        return gettext("%(sentence)s.") % {"sentence": whole}
    if names := NAMES.fullmatch(text):
        return gettext("%(names)s and %(last)s") % {"names": names[1], "last": names[2]}
    return figure_words(text)


def _sentence(language: str, text: str) -> str | None:
    """None for a text that is not one of the listed sentences."""
    if (plain := text.replace("%", "%%")) in SENTENCES:
        return gettext(plain) % {}
    for pattern, sentence in _patterns():
        found = pattern.fullmatch(text)
        if found:
            return gettext(sentence) % {
                name: _said(language, part) for name, part in found.groupdict().items()
            }
    return None
