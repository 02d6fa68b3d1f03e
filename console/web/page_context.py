"""What a view gives a template: names and values, which nothing in Python reads again."""

from typing import Any, TypeAlias

PageContext: TypeAlias = dict[str, Any]
