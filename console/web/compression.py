"""Compress pages, scripts and styles, even without `collectstatic`."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.middleware import WhiteNoiseFileResponse


class CompressionMiddleware(GZipMiddleware):
    """Django's gzip (with its padding against guessing secrets by length) for complete responses.

    Streams that are not files are not compressed: rows of a search or an export must arrive as they are found, not when
    a compressor's buffer is full.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress unless the client does not accept it, or it is small, compressed or a live stream."""
        if response.streaming and not isinstance(response, WhiteNoiseFileResponse):
            return response
        assert isinstance(response, HttpResponse | WhiteNoiseFileResponse)
        return super().process_response(request, response)
