"""The body of an error as RFC 9457 problem details: the same wherever a request is refused."""

from __future__ import annotations

from typing import Any

CONTENT_TYPE = "application/problem+json"


def problem_body(status: int, code: str, title: str, detail: str, path: str) -> dict[str, Any]:
    """Members that every problem document has; ``path`` is that of the request."""
    return {
        "type": f"/api/problems/{code}",
        "title": title,
        "status": int(status),
        "code": code,
        "detail": detail,
        "instance": path,
    }
