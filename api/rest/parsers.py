"""How bodies are read. Their size is limited before Django (`console.web.request_limit`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class ShallowJSONParser(JSONParser):
    """JSON that Python can read: lists within lists a thousand deep are the caller's fault, not a failure of ours."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError("JSON is nested too deeply.") from None
