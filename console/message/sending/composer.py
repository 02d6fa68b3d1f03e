"""The forms of sending a message and of a topic's schema."""

from __future__ import annotations

import base64

from django import forms

from console.brokers.body_unpack import unpack
from console.message.search.lanes import Hit
from console.message.sending.params import TYPED_BODY_BYTES_MAX, SendParams, own_properties
from console.operation.plan.places import BrokerQueuePlace, MessagePlace
from console.text import Text

ENCODINGS = (("text", Text("Text")), ("base64", "Base64"), ("keep", Text("Keep the original, byte by byte")))


class SendForm(forms.Form):
    """A message to send; properties are `name = value` lines."""

    topic = forms.CharField(label=Text("Topic"), max_length=255)
    queue = forms.CharField(
        label=Text("Queue"),
        required=False,
        max_length=255,
        help_text=Text("like broker-a:3; empty: any queue"),
    )
    tags = forms.CharField(label=Text("Tag"), required=False, max_length=255)
    keys = forms.CharField(
        label=Text("Keys"), required=False, max_length=1_000, help_text=Text("separated by spaces")
    )
    properties = forms.CharField(
        label=Text("Properties"),
        required=False,
        max_length=40_000,
        help_text=Text("one per line: name = value"),
    )
    encoding = forms.ChoiceField(label=Text("Body format"), choices=ENCODINGS)
    body = forms.CharField(
        label=Text("Body"), required=False, max_length=2 * TYPED_BODY_BYTES_MAX, strip=False
    )

    def clean_queue(self) -> BrokerQueuePlace | None:
        text = self.cleaned_data["queue"].strip()
        if not text:
            return None
        name, _, number = text.rpartition(":")
        if not name or not number.isascii() or not number.isdigit():
            raise forms.ValidationError(
                Text("Enter a queue as broker name, colon and number, like broker-a:3.")
            )
        return BrokerQueuePlace(broker_name=name, queue_id=int(number))

    def clean_properties(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for number, line in enumerate(self.cleaned_data["properties"].splitlines(), start=1):
            if not line.strip():
                continue
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise forms.ValidationError(Text("Line %(number)s is not name = value.", number=number))
            if name.strip() in found:
                raise forms.ValidationError(
                    Text("Line %(number)s repeats %(name)s.", number=number, name=name.strip())
                )
            found[name.strip()] = value.strip()
        return found

    def params(self, source: MessagePlace | None) -> SendParams:
        """Return the parameters of the plan; only for a valid form."""
        cleaned = self.cleaned_data
        encoding, body = cleaned["encoding"], cleaned["body"]
        return SendParams(
            tags=cleaned["tags"],
            keys=cleaned["keys"],
            properties=cleaned["properties"],
            body=body.replace("\r\n", "\n") if encoding == "text" else None,
            body_base64="".join(body.split()) if encoding == "base64" else None,
            keep_body=encoding == "keep",
            queue=cleaned["queue"],
            source=source,
        )


def initial_of(hit: Hit) -> dict[str, str]:
    """Return the form's initial values for a copy: all editable parts of the original."""
    record = hit.record
    body = unpack(record.body, record.sys_flag).body
    encoding, text = "keep", ""
    if len(body) <= TYPED_BODY_BYTES_MAX:
        try:
            encoding, text = "text", body.decode()
        except UnicodeDecodeError:
            encoding, text = "base64", base64.b64encode(body).decode()
        if "\r" in text or "\x00" in text:  # a form would change the first and reject the second
            encoding, text = "base64", base64.b64encode(body).decode()
    return {
        "topic": record.topic,
        "tags": record.tags,
        "keys": record.keys,
        "properties": "\n".join(f"{name} = {value}" for name, value in own_properties(hit).items()),
        "encoding": encoding,
        "body": text,
    }


class SchemaForm(forms.Form):
    """A descriptor set and which of its messages the topic carries."""

    topic = forms.CharField(max_length=255, widget=forms.HiddenInput)
    message_type = forms.CharField(
        label=Text("Message type"), max_length=255, help_text=Text("its full name: acme.orders.OrderPaid")
    )
    descriptor_set = forms.FileField(
        label=Text("Descriptor set"),
        allow_empty_file=False,
        help_text="protoc --include_imports --descriptor_set_out=orders.pb orders.proto",
    )
