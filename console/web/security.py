"""Security headers of every response, and pages for addresses that cannot exist or are none.

The policy allows nothing inline and nothing from other origins; styles, scripts, sockets and images are local files.
"""

from collections.abc import Callable
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.templatetags.static import static
from django.views import defaults

from console.text import Text
from console.web.problem import CONTENT_TYPE, problem_body, refused_page

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
    """Answers 400 for an address with a zero byte or a segment longer than any name; gives 405 a page.

    PostgreSQL refuses both. Fields of forms and of JSON are checked where they are read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_rest = request.path.startswith(API_PREFIX)
        # REST checks its parameters itself and names the one at fault.
        query = "" if is_rest else request.META.get("QUERY_STRING", "")
        reason = Text()
        if "\x00" in request.path or "%00" in query:
            reason = Text("The address contains a zero byte, which no name or search can contain.")
        elif max(map(len, request.path.split("/"))) > NAME_LENGTH_MAX:
            reason = Text(
                "A name in the address is longer than %(most)s characters, the longest possible name.",
                most=NAME_LENGTH_MAX,
            )
        if reason:
            bad = HTTPStatus.BAD_REQUEST
            return _problem(request, reason) if is_rest else refused_page(request, bad, reason)
        response = self.get_response(request)
        is_refused = response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and not is_rest
        return _not_a_page(request, response) if is_refused else response


def _not_a_page(request: HttpRequest, refused: HttpResponseBase) -> HttpResponse:
    """Return the page of an address that takes forms only, as a reload or a bookmark opens it; Django's is empty."""
    reason = Text(
        "It was opened without a form, for example by a reload or a bookmark. Nothing was changed. Go "
        "back and send the form again."
    )
    answer = refused_page(request, HTTPStatus.METHOD_NOT_ALLOWED, reason)
    answer["Allow"] = refused["Allow"]
    return answer


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
