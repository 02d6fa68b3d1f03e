"""The forms that confirm a plan and control a job."""

from django import forms

from console.operation.rules import RATE_PER_S_MAX

REASON_LENGTH_MAX = 500


class ConfirmForm(forms.Form):
    """The typed name (required above the cluster's threshold) and the reason, for the audit."""

    confirm_text = forms.CharField(required=False, max_length=255, strip=False)
    reason = forms.CharField(required=False, max_length=REASON_LENGTH_MAX)


class RateForm(forms.Form):
    """Messages per second; empty means unlimited."""

    rate_per_s = forms.IntegerField(required=False, min_value=1, max_value=RATE_PER_S_MAX)
