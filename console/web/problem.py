"""Build the body of an error as RFC 9457 problem details, for every refused request."""

from __future__ import annotations

from console.text import JsonObject

CONTENT_TYPE = "application/problem+json"


def problem_body(status: int, code: str, title: str, detail: str, path: str) -> JsonObject:
    """Return the members that every problem document has; ``path`` is that of the request."""
    return {
        "type": f"/api/problems/{code}",
        "title": title,
        "status": int(status),
        "code": code,
        "detail": detail,
        "instance": path,
    }
