"""The locale of a reader: language and time zone, from the cookies of the browser, active while a request is served.

Code, REST, the command line, jobs and everything in the database are English and UTC; pages and sockets show the same
in the reader's language and zone. Django's active language and time zone are those of the reader.
"""

import datetime as dt
import zoneinfo
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import timezone, translation

API_PREFIX = "/api/"
ZONE_COOKIE = "zone"  # set by shell.js


@dataclass(frozen=True, slots=True)
class Locale:
    """Language and zone of the reader that words are for."""

    language: str
    zone: dt.tzinfo = dt.UTC

    @classmethod
    def of_headers(cls, pairs: Iterable[tuple[bytes, bytes]]) -> "Locale":
        """Return the locale of a socket: that of the same browser's pages."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
        request = HttpRequest()
        request.META["HTTP_ACCEPT_LANGUAGE"] = headers.get("accept-language", "")
        request.COOKIES = {name: one.value for name, one in SimpleCookie(headers.get("cookie", "")).items()}
        return cls(translation.get_language_from_request(request), zone_of(request))

    def activate(self) -> None:
        """Make language and zone the active ones of this thread or task."""
        translation.activate(self.language)
        timezone.activate(self.zone)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make language and zone the active ones for a while."""
        with translation.override(self.language), timezone.override(self.zone):
            yield


class ReaderLocaleMiddleware(LocaleMiddleware):
    """Activate language and zone; under REST always English and UTC: scripts compare its sentences."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path.startswith(API_PREFIX):
            translation.activate(settings.LANGUAGE_CODE)
            request.LANGUAGE_CODE = settings.LANGUAGE_CODE
            timezone.deactivate()
        else:
            super().process_request(request)
            timezone.activate(zone_of(request))

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_same_for_all = request.path.startswith((API_PREFIX, settings.STATIC_URL, "/language/"))
        return response if is_same_for_all else super().process_response(request, response)


def zone_of(request: HttpRequest) -> dt.tzinfo:
    """Return the zone of the browser; UTC until its cookie is set or if it is invalid."""
    name = request.COOKIES.get(ZONE_COOKIE, "")
    try:
        return zoneinfo.ZoneInfo(name) if name else dt.UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return dt.UTC
