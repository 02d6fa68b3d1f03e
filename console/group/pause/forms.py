"""The form that pauses or resumes topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from console.group.pause.plans import ReadingParams
from console.operation.config.forms import ConfigForm
from console.text import Text


class PauseForm(ConfigForm):
    """Topics and brokers; naming none means all, including later ones."""

    topics = forms.MultipleChoiceField(label=Text("Topics"), required=False)

    def __init__(self, topics: Sequence[str], brokers: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(brokers, *args, **kwargs)
        self.topic_names = list(topics)
        self.fields["topics"].choices = [(name, name) for name in topics]  # type: ignore[attr-defined]

    def clean_topics(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["topics"]
        if not chosen:
            raise forms.ValidationError(Text("Choose at least one topic."))
        return chosen

    def settings(self) -> ReadingParams:
        """Return the chosen topics where they are not all."""
        chosen = self.cleaned_data["topics"]
        return ReadingParams(topics=() if set(chosen) == set(self.topic_names) else tuple(chosen))
