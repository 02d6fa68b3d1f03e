"""The locale of a page or a socket: language and zone, from the cookies of the browser."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils import timezone, translation

from console.text.locale import Locale, ReaderLocaleMiddleware, zone_of

SHANGHAI = zoneinfo.ZoneInfo("Asia/Shanghai")


def test_a_socket_has_the_locale_of_its_page() -> None:
    cookie = (b"cookie", b"other=1; tidemark_language=zh-hans; zone=Asia/Shanghai")
    assert Locale.of_headers([cookie]) == Locale("zh-hans", SHANGHAI)
    assert Locale.of_headers([(b"accept-language", b"zh-CN")]) == Locale("zh-hans")
    assert Locale.of_headers([]) == Locale("en", dt.UTC)


@pytest.mark.parametrize("cookie", ["", "Not/AZone", "../../etc/passwd", "\x00"])
def test_it_falls_back_to_utc(cookie: str) -> None:
    request = RequestFactory().get("/")
    request.COOKIES["zone"] = cookie
    assert zone_of(request) is dt.UTC


def test_language_and_zone_are_active_for_a_while() -> None:
    with Locale("zh-hans", SHANGHAI).active():
        assert (translation.get_language(), timezone.get_current_timezone()) == ("zh-hans", SHANGHAI)
    assert (translation.get_language(), timezone.get_current_timezone_name()) == ("en", "UTC")


@pytest.mark.parametrize(
    ("path", "zone"), [("/c/local/groups", "Asia/Shanghai"), ("/api/v1/clusters", "UTC")]
)
def test_pages_are_in_the_zone_of_the_browser_and_rest_in_utc(path: str, zone: str) -> None:
    found = []

    def page(request: HttpRequest) -> HttpResponse:
        found.append(timezone.get_current_timezone_name())
        return HttpResponse()

    request = RequestFactory().get(path)
    request.COOKIES["zone"] = "Asia/Shanghai"
    with Locale("en").active():
        ReaderLocaleMiddleware(page)(request)
    assert found == [zone]
