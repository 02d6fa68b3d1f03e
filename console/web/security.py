"""Security headers of every response, and refusal of addresses that cannot exist.

The policy allows nothing inline and nothing from other origins; styles, scripts, sockets and images are local files.
"""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.templatetags.static import static
from django.views import defaults

from console.web.problem import CONTENT_TYPE, problem_body

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
PREFETCH_RULES = "js/prefetch.speculationrules"
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class ContentSecurityPolicyMiddleware:
    """Adds both policies to every response without its own; to pages also what may be fetched ahead."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            # lists and pages that read the console's own tables; never a search, an export or an answer of brokers
            response.headers.setdefault("Speculation-Rules", f'"{static(PREFETCH_RULES)}"')
        return response


API_PREFIX = "/api/"
NAME_LENGTH_MAX = 255  # of groups, in RocketMQ and in every column here; topics have at most 127


class AddressMiddleware:
    """Answers 400 for an address with a zero byte or a segment longer than any name.

    PostgreSQL refuses both. Fields of forms and of JSON are checked where they are read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_rest = request.path.startswith(API_PREFIX)
        # REST checks its parameters itself and names the one at fault.
        query = "" if is_rest else request.META.get("QUERY_STRING", "")
        reason = ""
        if "\x00" in request.path or "%00" in query:
            reason = "The address has a zero byte; names and search words have none."
        elif max(map(len, request.path.split("/"))) > NAME_LENGTH_MAX:
            reason = f"A name in the address has more than {NAME_LENGTH_MAX} characters."
        if reason:
            return _problem(request, reason) if is_rest else _sentence(reason)
        return self.get_response(request)


def _sentence(reason: str) -> HttpResponse:
    return HttpResponse(f"{reason}\n", status=400, content_type="text/plain; charset=utf-8")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer requests that Django refuses before a view: problem details for REST, a page for browsers."""
    if not request.path.startswith(API_PREFIX):
        return defaults.bad_request(request, exception)
    if isinstance(exception, TooManyFieldsSent):
        return _problem(
            request, f"More than {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS} parameters. Send fewer."
        )
    return _problem(request, "The request was refused before it was read; the console's log has the reason.")


def _problem(request: HttpRequest, reason: str) -> HttpResponse:
    path = request.path[:NAME_LENGTH_MAX]
    body = problem_body(400, "malformed", "The request is not valid", reason, path)
    return JsonResponse(body, status=400, content_type=CONTENT_TYPE)
