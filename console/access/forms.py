"""Forms of sign-in, passwords, tokens, chosen columns and the activity filters."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from console.access.activity_list import stored_actor
from console.access.models import Verb
from console.lists.spec import ListSpec
from console.text import Names, Text
from console.text.moment_field import MomentField

# Ten years; leave the field empty for a token that does not expire.
TOKEN_DAYS_MAX = 3_650


class SignInForm(forms.Form):
    """Name and password."""

    username = forms.CharField(label=Text("User name"), max_length=150)
    password = forms.CharField(label=Text("Password"), strip=False, widget=forms.PasswordInput)


class NewPasswordForm(forms.Form):
    """A new password, typed twice; a weak one is refused with the messages of Django's validators."""

    password = forms.CharField(label=Text("Password"), strip=False, widget=forms.PasswordInput)
    again = forms.CharField(label=Text("Password again"), strip=False, widget=forms.PasswordInput)

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
            self.add_error("again", ValidationError(Text("The two passwords differ.")))
        return cleaned


class ChangePasswordForm(NewPasswordForm):
    """A new password plus the present one, if there is one: a browser left open must not be enough."""

    old = forms.CharField(label=Text("Current password"), strip=False, widget=forms.PasswordInput)

    def __init__(self, person: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(person, *args, **kwargs)
        self.fields["password"].label = Text("New password")
        self.fields["again"].label = Text("New password again")
        if not person.has_usable_password():
            del self.fields["old"]


class ColumnNames(forms.CharField):
    """Comma-separated column names of a list; cleans to each name once, in the list's order."""

    def __init__(self, spec: ListSpec) -> None:
        self.names = spec.column_names
        super().__init__(required=False, max_length=len(",".join(self.names)) + 1)

    def clean(self, value: Any) -> list[str]:
        wanted = {name for name in str(super().clean(value)).split(",") if name}
        if unknown := sorted(wanted.difference(self.names)):
            raise ValidationError(
                Text(
                    "Unknown column %(name)s. Columns: %(names)s.",
                    name=unknown[0][:40],
                    names=Names(self.names),
                )
            )
        return [name for name in self.names if name in wanted]


class ColumnsForm(forms.Form):
    """Columns of a list that a person always (``on``) or never (``off``) sees."""

    def __init__(self, spec: ListSpec, *args: Any) -> None:
        super().__init__(*args)
        self.fields["on"] = ColumnNames(spec)
        self.fields["off"] = ColumnNames(spec)


class ActivityForm(forms.Form):
    """Filters of the activity page; all are optional and combine."""

    cluster = forms.CharField(required=False, max_length=63)
    subject = forms.CharField(required=False, max_length=300)
    actor = forms.CharField(required=False, max_length=150)
    plan = forms.CharField(required=False, max_length=32)
    verb = forms.CharField(required=False, max_length=64)
    since = MomentField(required=False)
    until = MomentField(required=False)

    def clean_actor(self) -> str:
        """Return what the audit stores for the system or a stranger, typed in the reader's language."""
        return stored_actor(self.cleaned_data["actor"])

    def clean_until(self) -> int | None:
        """Refuse a range that holds no time."""
        since: int | None = self.cleaned_data.get("since")
        until: int | None = self.cleaned_data["until"]
        if since is not None and until is not None and until <= since:
            raise ValidationError(Text("The end is not after the start: choose a later end."))
        return until


class TokenForm(forms.Form):
    """A new API token. It never allows more than its owner's grants."""

    name = forms.CharField(
        label=Text("Name"),
        max_length=100,
        help_text=Text("The script or system that uses it, for example “deploy pipeline”."),
    )
    scopes = forms.MultipleChoiceField(
        label=Text("Permissions"),
        choices=Verb.choices,
        error_messages={"required": Text("Choose at least one.")},
    )
    cluster_pattern = forms.CharField(
        label=Text("On clusters"),
        max_length=255,
        initial="*",
        help_text=Text("A glob pattern: * matches every cluster, prod-* those whose names begin with prod-."),
    )
    days = forms.IntegerField(
        label=Text("Valid for (days)"),
        required=False,
        min_value=1,
        max_value=TOKEN_DAYS_MAX,
        initial=90,
        help_text=Text("Leave empty for no expiry: the token is valid until it is revoked."),
    )
