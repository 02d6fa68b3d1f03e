"""The console's texts as values: see `console.text.value`."""

from console.text.value import Duration, Latency, Moment, Text, text_of

__all__ = ["Duration", "Latency", "Moment", "Text", "text_of"]
