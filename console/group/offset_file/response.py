"""Send a file of offsets to be stored."""

from __future__ import annotations

from console.group.offset_file.layout import OffsetFile, as_csv_lines, as_json_lines
from console.web.streamed import StreamedResponse

FORMATS = {
    "json": (as_json_lines, "application/json"),
    "csv": (as_csv_lines, "text/csv; charset=utf-8"),
}


def offset_file_response(file: OffsetFile, format: str) -> StreamedResponse:
    """Return the file as ``<cluster>-<group>-offsets.<format>``."""
    lines, content_type = FORMATS[format]
    answer = StreamedResponse(lines(file), content_type=content_type)
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in f"{file.cluster}-{file.group}")
    answer["Content-Disposition"] = f'attachment; filename="{name}-offsets.{format}"'
    return answer
