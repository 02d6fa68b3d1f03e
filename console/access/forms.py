"""What people type to sign in and to choose a password."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError


class SignInForm(forms.Form):
    """Name and password."""

    username = forms.CharField(label="Name", max_length=150)
    password = forms.CharField(label="Password", strip=False, widget=forms.PasswordInput)


class NewPasswordForm(forms.Form):
    """A password, twice; refused with the validators' own words when it is weak."""

    password = forms.CharField(label="Password", strip=False, widget=forms.PasswordInput)
    again = forms.CharField(label="Password again", strip=False, widget=forms.PasswordInput)

    def __init__(self, person: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person = person

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        validate_password(password, self.person)
        return password

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "password" in cleaned and cleaned.get("again") != cleaned["password"]:
            self.add_error("again", ValidationError("The two passwords differ."))
        return cleaned


class ActivityForm(forms.Form):
    """Filters of the activity page; each narrows, all may be empty."""

    cluster = forms.CharField(required=False, max_length=63)
    subject = forms.CharField(required=False, max_length=300)
    actor = forms.CharField(required=False, max_length=150)
    plan = forms.CharField(required=False, max_length=32)
