"""The address of a request's client, for the audit."""

from django.http import HttpRequest


def remote_addr(request: HttpRequest) -> str:
    """Return the client's address; behind trusted proxies `console.asgi` has replaced the connection's."""
    return str(request.META.get("REMOTE_ADDR", ""))
