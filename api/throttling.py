"""How much one caller may ask, per person or token: reading, searching brokers, changing."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

# A script that polls ten resources a second stays below; a loop without a pause does not.
RATES: dict[str, str | None] = {"read": "1200/min", "search": "120/min", "change": "240/min"}


class ScopeThrottle(SimpleRateThrottle):
    """Counts per caller and scope; the scope is ``view.throttle_scope`` for reads, ``change`` for everything
    else."""

    scope = "read"
    THROTTLE_RATES = dict(RATES)

    def allow_request(self, request: Request, view: Any) -> bool:
        self.scope = view.throttle_scope if request.method in ("GET", "HEAD") else "change"
        self.rate = self.get_rate()
        self.num_requests, self.duration = self.parse_rate(self.rate)
        return super().allow_request(request, view)

    def get_cache_key(self, request: Request, view: Any) -> str:
        token = getattr(request.auth, "pk", None)
        who = f"t{token}" if token is not None else f"u{getattr(request.user, 'pk', None)}"
        return f"throttle:{self.scope}:{who}"
