"""What scripts call on the classic RocketMQ dashboard, under `/api/classic/<cluster>/`.

Addresses, parameters and members are those of that dashboard. A response is ``{"status": 0, "data", "errMsg": null}``;
a refusal has status -1 and, unlike there, its HTTP status. Not in the OpenAPI document: new scripts use `/api/v1`.
"""

from __future__ import annotations

from typing import ClassVar

from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import pagination
from api.rest.permissions import VIEW, require
from api.rest.resource import Resource

# As the dashboard marks names of RocketMQ's own, unless they are skipped.
SYSTEM_PREFIX = "%SYS%"
UNKNOWN = -1  # there, too: a total that is not known, an offset that was never committed


class Classic(Resource):
    """Base of these views. Names are parameters, so each view requires the right to them itself."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    takes_any_parameter = True
    throttle_scope = "search"

    def handle_exception(self, exc: Exception) -> Response:
        """Return a refusal as the dashboard writes it."""
        refusal = super().handle_exception(exc)
        refusal.data = {"status": -1, "data": None, "errMsg": refusal.data["detail"]}
        refusal.content_type = "application/json"
        return refusal

    def name(self, request: Request, parameter: str) -> str:
        """Return the named topic or group, if the caller may VIEW it; raises ValidationError without one."""
        found = pagination.text(request, parameter).removeprefix(SYSTEM_PREFIX)
        if not found:
            raise ValidationError({parameter: ["Required."]})
        require(request.user, VIEW, self.kwargs["cluster"], found)
        return found


def answer(data: object) -> Response:
    """Return data as the dashboard does."""
    return Response({"status": 0, "data": data, "errMsg": None})
