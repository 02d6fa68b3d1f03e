"""What every request passes: response headers that keep foreign code out of our pages, and no zero bytes.

The policy allows nothing inline and nothing from elsewhere; styles, scripts, sockets and images are our own
files.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # Django's admin and Swagger UI draw icons from data: addresses
        "font-src 'self'",
        "connect-src 'self'",  # 'self' covers ws: and wss: of the same host and port
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "manifest-src 'self'",
    ]
)
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class ContentSecurityPolicyMiddleware:
    """Adds both policies to every response that does not bring its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response


class ZeroByteMiddleware:
    """400 for an address with a zero byte: no name has one, and PostgreSQL takes none in a text. Fields of forms and of
    JSON are checked where they are read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            words = "The address has a zero byte; names and search words have none.\n"
            return HttpResponse(words, status=400, content_type="text/plain; charset=utf-8")
        return self.get_response(request)
