"""Pages, scripts and styles go over the wire compressed, also where nobody ran `collectstatic`."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.middleware import WhiteNoiseFileResponse


class CompressionMiddleware(GZipMiddleware):
    """Django's gzip (with its padding against guessing secrets by length) for what is whole.

    Streams that are not files stay as they are: rows of a search or an export are to arrive as they are
    found, not when a compressor's buffer is full.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress unless the client does not take it, it is small, compressed already, or a live stream."""
        if response.streaming and not isinstance(response, WhiteNoiseFileResponse):
            return response
        assert isinstance(response, HttpResponse | WhiteNoiseFileResponse)
        return super().process_response(request, response)
