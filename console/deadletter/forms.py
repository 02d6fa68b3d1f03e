"""Forms that filter and replay dead letters."""

from __future__ import annotations

from django import forms

from console.deadletter.dead_letters import TEXT_FILTERS, TEXT_LENGTH_MAX, Filter
from console.deadletter.replay import copy as replay_copy
from console.deadletter.replay.params import STOP_MAX, ReplayParams
from console.operation.rules import RATE_PER_S_MAX
from console.text import Text
from console.text.moment_field import MomentField

TARGETS = (
    (
        replay_copy.FAILED_GROUP,
        Text("Only this group"),
        Text("its %%RETRY%% topic; other groups receive nothing"),
    ),
    (
        replay_copy.ORIGINAL_TOPIC,
        Text("The original topic"),
        Text("every group that reads it receives the copies too"),
    ),
    (
        replay_copy.CLIENT,
        Text("One client, one message"),
        Text("the newest matching dead letter; shows the client's answer"),
    ),
    (replay_copy.OTHER_TOPIC, Text("Another topic"), Text("with properties that name their origin")),
    (
        replay_copy.NOWHERE,
        Text("No target: mark as handled"),
        Text("nothing is sent; later replays skip them"),
    ),
)
RATE_DEFAULT = 50  # messages per second: slow enough to watch and to stop in time
STOP_AFTER_DEFAULT = 20  # failures: enough to see that it is not one bad message


class FilterForm(forms.Form):
    """Conditions on dead letters; all fields are optional."""

    since = MomentField(required=False)
    until = MomentField(required=False)
    tag = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX)
    key = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX)
    property = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX)
    body = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX)
    cause = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX)

    def clean_property(self) -> str:
        wanted: str = self.cleaned_data["property"].strip()
        if wanted.startswith("="):
            raise forms.ValidationError(Text("Enter a name, or name=value."))
        return wanted

    def clean(self) -> None:
        super().clean()
        cleaned = self.cleaned_data
        since, until = cleaned.get("since"), cleaned.get("until")
        if since is not None and until is not None and since >= until:
            self.add_error("until", Text("The end must lie after the start."))

    def filter(self) -> Filter:
        """Return the filter of services and plans."""
        return Filter(
            from_ms=self.cleaned_data["since"],
            to_ms=self.cleaned_data["until"],
            **{name: self.cleaned_data[name].strip() for name in TEXT_FILTERS},
        )


class ReplayForm(FilterForm):
    """A filter, and what to do with the matching letters."""

    target = forms.ChoiceField(choices=[(code, words) for code, words, _ in TARGETS])
    topic = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX)
    client_id = forms.CharField(required=False, max_length=TEXT_LENGTH_MAX)
    rate_per_s = forms.IntegerField(required=False, min_value=1, max_value=RATE_PER_S_MAX)
    send_again = forms.BooleanField(required=False)
    stop_after_failures = forms.IntegerField(required=False, min_value=1, max_value=STOP_MAX)
    stop_if_dlq_grows_by = forms.IntegerField(required=False, min_value=1, max_value=STOP_MAX)

    def clean(self) -> None:
        super().clean()
        cleaned = self.cleaned_data
        target = cleaned.get("target")
        if target == replay_copy.OTHER_TOPIC and not cleaned.get("topic"):
            self.add_error("topic", Text("Enter the topic that receives the copies."))
        if target == replay_copy.CLIENT and not cleaned.get("client_id"):
            self.add_error("client_id", Text("Choose an online client of the group."))

    def params(self) -> ReplayParams:
        """Return the parameters of the plan: only those that belong to the target."""
        given = self.cleaned_data
        target = given["target"]
        return ReplayParams(
            target=target,
            filter=self.filter(),
            rate_per_s=given["rate_per_s"],
            skip_replayed=not given["send_again"],
            stop_after_failures=given["stop_after_failures"],
            stop_if_dlq_grows_by=given["stop_if_dlq_grows_by"],
            topic=given["topic"].strip() if target == replay_copy.OTHER_TOPIC else "",
            client_id=given["client_id"].strip() if target == replay_copy.CLIENT else "",
        )
