"""`ETag` of JSON answers, and 304 to a caller that has the same already.

The tag is weak (the body may be compressed on its way) and made of the finished body: a 304 saves the transfer, not
the reading. What a caller may see is in the body, so two callers with the same tag see the same.
"""

from __future__ import annotations

import hashlib

from django.http import HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

HEADER, CONDITION = "ETag", "If-None-Match"
# A browser asks each time; no cache in between keeps what one caller may see.
CACHING = "private, no-cache"


def with_etag(request: Request, response: Response) -> HttpResponse | None:
    """Tag a rendered answer; return 304 in its place where the caller has it. For `add_post_render_callback`."""
    tag = f'W/"{hashlib.blake2b(response.content, digest_size=16).hexdigest()}"'
    response[HEADER], response["Cache-Control"] = tag, CACHING
    if not _has(request.headers.get(CONDITION, ""), tag):
        return None
    same = HttpResponseNotModified()
    for name in (HEADER, "Cache-Control", "Vary"):
        if name in response:
            same[name] = response[name]
    return same


def _has(condition: str, tag: str) -> bool:
    """Compare weakly: strong and weak tags of one value are the same."""
    return any(
        known == "*" or known.removeprefix("W/") == tag.removeprefix("W/") for known in parse_etags(condition)
    )
