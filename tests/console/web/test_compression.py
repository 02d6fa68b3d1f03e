"""What is whole goes compressed to who takes it; streams go as they come."""

from __future__ import annotations

import gzip

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from console.web.compression import CompressionMiddleware

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
GZIP = {"Accept-Encoding": "gzip"}


@pytest.mark.parametrize("address", ["/sign-in", "/static/css/tokens.css", "/static/js/shell.js"])
def test_it_compresses_pages_and_files(client: Client, address: str) -> None:
    plain = client.get(address)
    packed = client.get(address, headers=GZIP)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert len(packed.getvalue()) < len(plain.getvalue()) * 0.7
    assert "Content-Encoding" not in plain.headers
    if address.startswith("/static"):
        assert gzip.decompress(packed.getvalue()) == plain.getvalue()


def test_it_leaves_streams_alone() -> None:
    def answer(request: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(iter([b"x" * 1_000]), content_type="application/x-ndjson")

    request = RequestFactory().get("/", headers=GZIP)
    assert "Content-Encoding" not in CompressionMiddleware(answer)(request).headers


def test_it_does_not_compress_twice() -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse(b"x" * 1_000, headers={"Content-Encoding": "br"})

    request = RequestFactory().get("/", headers=GZIP)
    assert CompressionMiddleware(answer)(request).headers["Content-Encoding"] == "br"
