"""Every refusal of REST has the same members, whoever refuses."""

from __future__ import annotations

from console.web.problem import problem_body


def test_a_problem_document_has_these_members() -> None:
    assert problem_body(400, "malformed", "The request is not valid", "Send JSON.", "/api/v1/clusters") == {
        "type": "/api/problems/malformed",
        "title": "The request is not valid",
        "status": 400,
        "code": "malformed",
        "detail": "Send JSON.",
        "instance": "/api/v1/clusters",
    }
