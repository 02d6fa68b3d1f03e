"""A message's properties as one text: name, 1, value, 2 for each (protocol section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

PROPERTIES_BYTES_MAX = 32_767  # their length is an i16
NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR = "\x01", "\x02"


def properties_text(properties: Mapping[str, str]) -> str:
    """Name, 1, value, 2 for each, with the 2 after the last one too (releases up to 4.9.0 and from 5.2 on)."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Return the text as records and batches have it."""
    return properties_text(properties).encode()


def decode_properties(data: bytes | str) -> dict[str, str]:
    """Return the properties of an encoded text; other segments are passed over, the last of equal names wins."""
    text = data if isinstance(data, str) else data.decode(errors="replace")
    properties = {}
    for segment in text.split(PROPERTY_SEPARATOR):
        name, separator, value = segment.partition(NAME_VALUE_SEPARATOR)
        if separator and name:
            properties[name] = value
    return properties


def parse_properties(text: str) -> dict[str, str]:
    """Decode the properties of a chunk that holds no separator.

    Hot path: 1.0 µs for five properties, where the tolerant decoder takes about twice that.
    """
    try:
        return dict(
            [chunk.split(NAME_VALUE_SEPARATOR, 1) for chunk in text.split(PROPERTY_SEPARATOR) if chunk]
        )
    except ValueError:
        return decode_properties(text)


def parse_each_properties(texts: Sequence[bytes]) -> list[dict[str, str]]:
    """Return the properties of each text, those of the messages of one pull.

    Hot path: all texts become one JSON text, whose grammar refuses what is unusual in any of them; then each is decoded
    by itself. 0.8 instead of 1.5 us a message with five properties. Twin: `parse_properties`, one by one.
    """
    joined = b"\x03".join(texts)
    if b'"' not in joined and b"\\" not in joined:
        objects = joined.removesuffix(b"\x02").replace(b"\x02\x03", b'"},{"').replace(b"\x03", b'"},{"')
        members = objects.replace(b"\x01", b'":"').replace(b"\x02", b'","')
        try:
            found: list[dict[str, str]] = orjson.loads(b'[{"' + members + b'"}]')
        except orjson.JSONDecodeError:
            pass
        else:
            if len(found) == len(texts):
                return found
    return [parse_properties(text.decode(errors="replace")) for text in texts]
