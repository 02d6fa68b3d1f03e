"""The form that takes a file of offsets: uploaded or pasted, with other broker names where they changed."""

from __future__ import annotations

from django import forms

from console.group.offset_file.layout import FILE_BYTES_MAX, file_params, read_offset_file
from console.operation.errors import PlanRejected
from console.text import JsonObject, Text, text_of

BROKERS_LENGTH_MAX = 20_000


class OffsetFileForm(forms.Form):
    """`params()` are the parameters of the plan."""

    file = forms.FileField(required=False, max_length=255)
    content = forms.CharField(required=False, strip=False)
    brokers = forms.CharField(required=False, max_length=BROKERS_LENGTH_MAX)

    def clean_brokers(self) -> dict[str, str]:
        """Return old name → name here, one pair a line."""
        renamed = {}
        for number, line in enumerate(self.cleaned_data["brokers"].splitlines(), 1):
            old, equals, new = (part.strip() for part in line.partition("="))
            if line.strip() and not (old and equals and new):
                raise forms.ValidationError(
                    Text("Line %(line)s: name both brokers, such as broker-a=broker-b.", line=number)
                )
            if old:
                renamed[old] = new
        return renamed

    def clean(self) -> None:
        super().clean()
        cleaned = self.cleaned_data
        uploaded, pasted = cleaned.get("file"), cleaned.get("content", "").strip()
        if "file" in self.errors or "brokers" in self.errors:
            return
        if bool(uploaded) == bool(pasted):
            self.add_error("file", Text("Choose a file, or paste its content."))
            return
        try:
            read = read_offset_file(uploaded.read(FILE_BYTES_MAX + 1) if uploaded else pasted)
            self._params = file_params(read, cleaned["brokers"])
        except PlanRejected as refusal:
            self.refuse(refusal)

    def params(self) -> JsonObject:
        """Return the parameters of the plan of a valid form."""
        return self._params

    def refuse(self, refusal: PlanRejected) -> None:
        """Show why the file or the plan was refused beside the field at fault."""
        self.add_error("brokers" if refusal.field == "brokers" else "file", text_of(refusal).local())
