"""What the console says, as values: see `console.text.value`."""

from console.text.value import Duration, Text, text_of

__all__ = ["Duration", "Text", "text_of"]
