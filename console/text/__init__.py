"""The console's texts as values: see `console.text.value`."""

from console.text.value import Duration, JsonObject, Latency, Moment, Names, Span, Text, text_of

__all__ = ["Duration", "JsonObject", "Latency", "Moment", "Names", "Span", "Text", "text_of"]
