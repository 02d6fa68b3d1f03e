"""Templates without their indentation: a page of rows is a fifth smaller, and no request pays for it."""

from __future__ import annotations

import re

from django.template.base import Origin
from django.template.loaders.filesystem import Loader

# what keeps its spaces on screen
VERBATIM = re.compile(r"(<(pre|textarea)\b.*?</\2>)", re.DOTALL)
INDENT = re.compile(r"\n[ \t]+")


def unindented(source: str) -> str:
    """Cut what stands before the first character of each line; lines keep their numbers."""
    kept = VERBATIM.split(source)
    # text, verbatim element, name of the element, text, …
    return "".join(
        INDENT.sub("\n", part) if at % 3 == 0 else part for at, part in enumerate(kept) if at % 3 != 2
    )


class UnindentedLoader(Loader):
    """Django's loader of files, as ``unindented`` reads them."""

    def get_contents(self, origin: Origin) -> str:
        return unindented(super().get_contents(origin))
