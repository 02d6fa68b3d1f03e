"""Rate limits of callers, per person or token: reading, searching brokers, changing."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from api.rest import list_file
from console.web import quota

WINDOW_S = 60.0


class ScopeThrottle(BaseThrottle):
    """Count requests per caller and scope: ``view.throttle_scope`` for reads (``search`` for files), else ``change``.

    One instance serves one request.
    """

    # A minute. A script that polls ten resources a second stays below; a loop without a pause does not.
    RATES: ClassVar[dict[str, int]] = {"read": 1_200, "search": 120, "change": 240}

    def __init__(self) -> None:
        self._wait_s = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:
        scope = "change"
        if request.method in ("GET", "HEAD"):
            scope = "search" if list_file.is_wanted(request) else view.throttle_scope
        token = getattr(request.auth, "pk", None)
        who = f"t{token}" if token is not None else f"u{getattr(request.user, 'pk', None)}"
        self._wait_s = quota.take(f"rest:{scope}:{who}", most=self.RATES[scope], window_s=WINDOW_S)
        return self._wait_s == 0

    def wait(self) -> float:
        return self._wait_s
