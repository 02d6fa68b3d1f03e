"""The form that takes offsets from elsewhere: a file, with broker names that changed, or a group of another cluster."""

from __future__ import annotations

from collections.abc import Mapping

from django import forms

from console.group.offset_file.layout import FILE_BYTES_MAX, file_params, read_offset_file
from console.group.offsets.forms import OffsetPlanForm
from console.group.offsets.stored import OffsetParams
from console.group.offsets.targets import read_params
from console.operation.errors import PlanRejected
from console.operation.plan.params import Given
from console.text import Text, text_of

BROKERS_LENGTH_MAX = 20_000
CLONE_OF_LENGTH_MAX = 320  # a cluster, a slash, a group


class OffsetFileForm(OffsetPlanForm):
    """A file, or the group of another cluster to stand like by time; one of them."""

    other_group = "clone_of"

    file = forms.FileField(required=False, max_length=255)
    content = forms.CharField(required=False, strip=False)
    brokers = forms.CharField(required=False, max_length=BROKERS_LENGTH_MAX)
    clone_of = forms.CharField(required=False, max_length=CLONE_OF_LENGTH_MAX)

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
        try:
            if "clone_of" in self.data:
                self._params = read_params(Given({"target": "clone", "clone_of": cleaned.get("clone_of")}))
                return
            if bool(uploaded) == bool(pasted):
                raise PlanRejected(Text("Choose a file, or paste its content."), "file")
            read = read_offset_file(uploaded.read(FILE_BYTES_MAX + 1) if uploaded else pasted)
            self._params = read_params(Given(file_params(read, cleaned["brokers"])))
        except PlanRejected as refusal:
            self.refuse(text_of(refusal).local(), refusal.field)

    def shown_at(self) -> Mapping[str, str]:
        """Return the field that brought what does not fit."""
        brought_by = "content" if self.cleaned_data.get("content") else "file"
        return dict.fromkeys(("file", "offsets", "origin", "queues", "topics"), brought_by)

    def params(self) -> OffsetParams:
        """Return the parameters of the plan of a valid form."""
        return self._params
