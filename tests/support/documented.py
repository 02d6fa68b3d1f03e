"""Python examples of the documentation, run as they stand there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).parents[2] / "docs"


def example(document: str, heading: str) -> Callable[..., Awaitable[None]]:
    """Return `main` of the first Python block under a heading of the second level."""
    source = (DOCUMENTS / document).read_text().split(f"\n## {heading}\n")[1].split("```python\n")[1]
    names: dict[str, Any] = {}
    exec(source.split("```")[0], names)  # noqa: S102  our own document
    main: Callable[..., Awaitable[None]] = names["main"]
    return main
