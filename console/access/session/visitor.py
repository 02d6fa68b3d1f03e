"""Where a request comes from, as the audit writes it down."""

from django.http import HttpRequest


def remote_addr(request: HttpRequest) -> str:
    """Address of the other end of the connection; uvicorn replaces it by a trusted proxy's
    X-Forwarded-For.
    """
    return str(request.META.get("REMOTE_ADDR", ""))
