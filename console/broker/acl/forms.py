"""Forms of accounts, users and white addresses. A secret that was entered is never put back into a page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from django import forms

from console.broker.acl.page import Holder
from console.broker.acl.params import ENTRY_LENGTH_MAX, NAME_LENGTH_MAX, SECRET_LENGTH_MAX
from console.broker.acl.rights import (
    ACCOUNT,
    DENY,
    GROUP_RIGHT,
    PERMS,
    TOPIC_RIGHT,
    USER,
    USER_STATUSES,
    USER_TYPES,
    perms_of,
    policies_of,
    policy_config,
    rights,
)
from console.broker.acl.write import white_list
from console.operation.config.row import Config
from console.operation.errors import PlanRejected
from console.operation.plan.params import RawParams
from console.text import Text, text_of

ENTRIES_LENGTH_MAX = 100_000


class AclForm(forms.Form):
    """What an account and a user have in common; `params()` are the parameters of the plan."""

    brokers = forms.MultipleChoiceField(
        label=Text("Brokers"),
        help_text=Text("Only the chosen brokers are changed; each keeps its own accounts and users."),
        required=False,
    )

    def __init__(self, brokers: Sequence[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.broker_names = list(brokers)
        field = self.fields["brokers"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(name, name) for name in brokers]

    def settings(self) -> RawParams:
        """Return the settings of the object, as parameters of the plan."""
        raise NotImplementedError

    def params(self) -> RawParams:
        """Return the parameters; brokers unless all are chosen, so that a silent one is not forgotten."""
        found = {"name": self.cleaned_data["name"], **self.settings()}
        if self.cleaned_data["secret"]:
            found["secret"] = self.cleaned_data["secret"]
        chosen = self.cleaned_data["brokers"]
        return found if set(chosen) == set(self.broker_names) else {**found, "brokers": chosen}

    def clean_brokers(self) -> list[str]:
        """Require one where there are some."""
        chosen: list[str] = self.cleaned_data["brokers"]
        if self.broker_names and not chosen:
            raise forms.ValidationError(Text("Choose at least one broker.").local())
        return chosen


def _name(label: Text) -> forms.CharField:
    return forms.CharField(label=label, max_length=NAME_LENGTH_MAX)


def _secret(label: Text) -> forms.CharField:
    widget = forms.PasswordInput(render_value=False)
    return forms.CharField(
        label=label, max_length=SECRET_LENGTH_MAX, required=False, strip=False, widget=widget
    )


def _entries(label: Text, help_text: Text) -> forms.CharField:
    return forms.CharField(
        label=label, help_text=help_text, required=False, max_length=ENTRIES_LENGTH_MAX, widget=forms.Textarea
    )


def read_entries(text: str) -> dict[str, str]:
    """Read lines `name=value`. Raises ValidationError with the line that is none, or that is repeated."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, separator, value = (part.strip() for part in line.partition("="))
        if not separator or name in found:
            raise forms.ValidationError(
                Text("%(line)s is not name=value, or its name occurs twice.", line=line).local()
            )
        found[name] = value
    return found


@contextlib.contextmanager
def _checked() -> Iterator[None]:
    """Raise what a plan would reject as an error of the field, beside those of other fields."""
    try:
        yield
    except PlanRejected as refusal:
        raise forms.ValidationError(text_of(refusal).local()) from None


def _read_rights(prefix: str, text: str, field: str) -> dict[str, str]:
    found = read_entries(text)
    with _checked():
        rights(prefix, found, field)
    return found


class AccountForm(AclForm):
    """An account of 4.x."""

    name = _name(Text("Access key"))
    secret = _secret(Text("Secret key"))
    admin = forms.BooleanField(label=Text("Administrator: has all permissions"), required=False)
    default_topic_perm = forms.ChoiceField(
        label=Text("Default permission on topics"), choices=[(perm, perm) for perm in PERMS]
    )
    default_group_perm = forms.ChoiceField(
        label=Text("Default permission on groups"), choices=[(perm, perm) for perm in PERMS]
    )
    topic_perms = _entries(Text("Topic permissions"), Text("One per line, for example orders=PUB|SUB."))
    group_perms = _entries(Text("Group permissions"), Text("One per line, for example billing=SUB."))
    white_remote_address = forms.CharField(
        label=Text("White address"),
        help_text=Text("Hosts whose requests need no signature; usually empty."),
        required=False,
        max_length=ENTRY_LENGTH_MAX,
    )

    def clean_topic_perms(self) -> dict[str, str]:
        """Read the lines."""
        return _read_rights(TOPIC_RIGHT, self.cleaned_data["topic_perms"], "topic_perms")

    def clean_group_perms(self) -> dict[str, str]:
        """Read the lines."""
        return _read_rights(GROUP_RIGHT, self.cleaned_data["group_perms"], "group_perms")

    def settings(self) -> RawParams:
        """Return all of them: the form shows what the account has."""
        names = ("admin", "default_topic_perm", "default_group_perm", "topic_perms", "group_perms")
        return {name: self.cleaned_data[name] for name in (*names, "white_remote_address")}


class UserForm(AclForm):
    """A user of 5.x."""

    name = _name(Text("User name"))
    secret = _secret(Text("Password"))
    user_type = forms.ChoiceField(
        label=Text("Type"),
        choices=[(each, each) for each in USER_TYPES],
        help_text=Text("A super user has all permissions."),
    )
    user_status = forms.ChoiceField(label=Text("Status"), choices=[(each, each) for each in USER_STATUSES])
    policies = _entries(
        Text("Policies"),
        Text(
            "One per line: resource, Allow or Deny, actions, addresses. The most specific resource decides."
        ),
    )

    def clean_policies(self) -> dict[str, str]:
        """Read the lines."""
        found = read_entries(self.cleaned_data["policies"])
        with _checked():
            policy_config(found)
        return found

    def settings(self) -> RawParams:
        """Return all of them: the form shows what the user has."""
        return {name: self.cleaned_data[name] for name in ("user_type", "user_status", "policies")}


class WhiteForm(AclForm):
    """Hosts that need no account."""

    addresses = forms.CharField(
        label=Text("White addresses"),
        help_text=Text("Separated by commas, for example 192.0.2.7, 192.0.2.{8,9}, 192.0.3.*"),
        max_length=ENTRIES_LENGTH_MAX,
    )

    def params(self) -> RawParams:
        """Return the addresses, and the brokers unless all are chosen."""
        found = {"addresses": white_list(self.cleaned_data["addresses"])}
        chosen = self.cleaned_data["brokers"]
        return found if set(chosen) == set(self.broker_names) else {**found, "brokers": chosen}


FORMS: dict[str, type[AclForm]] = {ACCOUNT: AccountForm, USER: UserForm}


def initial_of(holder: Holder) -> RawParams:
    """Return what a form shows of an account or user: as most brokers have it."""
    config: Config = {right.key: right.value for right in holder.variants[0].rights}
    if holder.what == ACCOUNT:
        return {
            "name": holder.name,
            "admin": config["admin"],
            "default_topic_perm": config["defaultTopicPerm"] if config["defaultTopicPerm"] in PERMS else DENY,
            "default_group_perm": config["defaultGroupPerm"] if config["defaultGroupPerm"] in PERMS else DENY,
            "topic_perms": _lines(perms_of(TOPIC_RIGHT, config)),
            "group_perms": _lines(perms_of(GROUP_RIGHT, config)),
            "white_remote_address": config["whiteRemoteAddress"],
        }
    return {
        "name": holder.name,
        "user_type": config["userType"],
        "user_status": config["userStatus"],
        "policies": _lines(policies_of(config)),
    }


def _lines(entries: dict[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in entries.items())
