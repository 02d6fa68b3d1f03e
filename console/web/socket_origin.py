"""Check which pages may open a socket: those of this site and of CSRF_TRUSTED_ORIGINS.

This site means its scheme, host and port. Cookies ignore ports, so a page of another server on the same host would use
a visitor's session.
"""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.utils.http import is_same_domain


class OwnOrigin:
    """ASGI middleware that refuses sockets of other origins, or without one (HTTP 403)."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        application = self.application if is_own(scope) else WebsocketDenier()
        return await application(scope, receive, send)


def is_own(scope: Any) -> bool:
    """Whether the origin is this site or a trusted one; the same rule as Django's CsrfViewMiddleware."""
    origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
    if len(origins) != 1:
        return False
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "ws"), "")
    request = ASGIRequest({**scope, "type": "http", "method": "GET", "scheme": scheme}, None)  # type: ignore[arg-type]
    try:
        own = f"{request.scheme}://{request.get_host()}"
    except DisallowedHost:
        return False
    return _normal(origins[0]) == _normal(own) or _is_trusted(origins[0])


def _normal(origin: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port; a port that the scheme implies may be left out."""
    try:
        parts = urlsplit(origin)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return origin, "", None
    return parts.scheme, parts.hostname or "", port


def _is_trusted(origin: str) -> bool:
    """Whether the origin is trusted; ``https://*.example.org`` trusts every subdomain."""
    scheme, _, host = origin.partition("://")
    for trusted in settings.CSRF_TRUSTED_ORIGINS:
        its_scheme, _, pattern = trusted.partition("://")
        if scheme == its_scheme and (
            host == pattern or (pattern.startswith("*.") and is_same_domain(host, pattern.removeprefix("*")))
        ):
            return True
    return False
