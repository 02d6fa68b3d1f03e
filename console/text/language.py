"""The reader's language: the switch, the scripts' catalogue, and figures in its words.

A person's choice is a cookie; without it the browser's Accept-Language decides (`console.text.locale`).
"""

import functools
import hashlib
import re
from pathlib import Path

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext, pgettext
from django.views.decorators.http import require_POST, require_safe
from django.views.i18n import JavaScriptCatalog, set_language

CATALOG_AGE_S = 365 * 24 * 3600  # the address carries a hash of the words


@login_not_required
@require_POST
def choose(request: HttpRequest) -> HttpResponseBase:
    """Store the chosen language in a cookie and redirect to the page of the form."""
    return set_language(request)


@functools.cache
def catalog_version(code: str) -> str:
    """A hash of the scripts' words in a language; empty where there are none (English)."""
    path = Path(settings.LOCALE_PATHS[0]) / translation.to_locale(code) / "LC_MESSAGES" / "djangojs.mo"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else ""


def catalog_url() -> str:
    """Return the address of the scripts' catalogue in the active language; empty for English."""
    code = translation.get_language() or settings.LANGUAGE_CODE
    version = catalog_version(code)
    return f"{reverse('script-words', args=[code])}?v={version}" if version else ""


@login_not_required
@require_safe
def script_words(request: HttpRequest, code: str) -> HttpResponse:
    """Return the catalogue of one language as a script, cached by browsers until it changes."""
    version = catalog_version(code) if code in dict(settings.LANGUAGES) else ""
    if not version:
        return HttpResponse(status=404)
    with translation.override(code):
        answer = JavaScriptCatalog.as_view(packages=["console"])(request)
    assert isinstance(answer, HttpResponse)
    answer["ETag"] = f'"{version}"'
    answer["Cache-Control"] = f"public, max-age={CATALOG_AGE_S}, immutable"
    if request.headers.get("If-None-Match") == answer["ETag"]:
        return HttpResponse(status=304, headers=dict(answer.headers))
    return answer


# ---- figures ----

UNITS = re.compile(r"(?<![\w.])(\d[\d,.]*) (ms|s|m|h|d)(?![\w/])")
DAYS = re.compile(
    r"(?<![\w:.])(\d{1,2}) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?: (\d{4}))?(?![\w:])"
)


def is_english() -> bool:
    return (translation.get_language() or settings.LANGUAGE_CODE) == settings.LANGUAGE_CODE


def figure_words(text: str) -> str:
    """Translate the units and months of a figure's text: `3 h 12 m`, `12 Mar 12:02:41`.

    ``static/js/figures.js`` does the same where figures change live.
    """
    if is_english():
        return text
    text = UNITS.sub(lambda found: _unit(found[1], found[2]), text)
    return DAYS.sub(_day, text)


def _unit(number: str, unit: str) -> str:
    words = {
        "ms": pgettext("unit of a duration", "%(number)s ms"),
        "s": pgettext("unit of a duration", "%(number)s s"),
        "m": pgettext("unit of a duration", "%(number)s m"),
        "h": pgettext("unit of a duration", "%(number)s h"),
        "d": pgettext("unit of a duration", "%(number)s d"),
    }
    return words[unit] % {"number": number}


def _day(found: re.Match[str]) -> str:
    months = {
        "Jan": gettext("Jan"),
        "Feb": gettext("Feb"),
        "Mar": gettext("Mar"),
        "Apr": gettext("Apr"),
        "May": pgettext("month", "May"),
        "Jun": gettext("Jun"),
        "Jul": gettext("Jul"),
        "Aug": gettext("Aug"),
        "Sep": gettext("Sep"),
        "Oct": gettext("Oct"),
        "Nov": gettext("Nov"),
        "Dec": gettext("Dec"),
    }
    parts = {"day": found[1], "month": months[found[2]], "year": found[3]}
    return (gettext("%(day)s %(month)s %(year)s") if found[3] else gettext("%(day)s %(month)s")) % parts
