"""Pages as a browser shows them: without the line breaks and indentation of the templates."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client

# Whitespace around these is not seen.
BLOCKS = (
    "article|aside|caption|dd|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|legend|li|main|nav|ol|option|"
    "p|section|table|tbody|td|tfoot|th|thead|tr|ul"
)
# Nor is whitespace just inside these, as the templates lay them out.
INSIDE = f"{BLOCKS}|a|button|label|select|span|strong|summary|text"
TAG = re.compile(r"<[a-zA-Z][^<>]*>")
AFTER_TAG = re.compile(rf"(</(?:{BLOCKS})>|<(?:{INSIDE})(?: [^<>]*)?>) ")
BEFORE_TAG = re.compile(rf" (</(?:{INSIDE})>|<(?:{BLOCKS})[ >])")
# Where no line may break is not seen in a text.
WHOLE = re.compile(r'<span class="nowrap">([^<>]*)</span>')
KEPT = re.compile(r"(<(pre|textarea|script|style)\b.*?</\2>)", re.DOTALL)


def as_shown(html: str) -> str:
    """Collapse whitespace to one space, and drop it beside the edges of elements and before the end of a tag."""
    parts = KEPT.split(html)
    # Of each kept element there are three parts: the text before it, the element, the name of its tag.
    shown = []
    for number in range(0, len(parts), 3):
        text = WHOLE.sub(r"\1", re.sub(r"\s+", " ", parts[number]))
        text = TAG.sub(lambda tag: re.sub(r"\s+>$", ">", tag[0]), text)
        shown.append(BEFORE_TAG.sub(r"\1", AFTER_TAG.sub(r"\1", text)))
        shown.extend(parts[number + 1 : number + 2])
    return "".join(shown)


class Browser(Client):
    """A test client whose pages read as shown, so that literal tests do not depend on the layout of templates."""

    def request(self, **request: Any) -> Any:
        response = super().request(**request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and not response.streaming and "Content-Encoding" not in response.headers:
            response.content = as_shown(response.content.decode()).encode()
        return response
