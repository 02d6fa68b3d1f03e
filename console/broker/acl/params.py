"""What a request for a change of access control may name, and how a plan keeps it: never with a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

from console.broker.acl.rights import (
    GROUP_RIGHT,
    PERMS,
    TOPIC_RIGHT,
    USER_STATUSES,
    USER_TYPES,
)
from console.operation.config.change import ConfigParams
from console.operation.errors import PlanRejected
from console.operation.plan.params import ACCEPTING, ON_BROKERS, Accepted, Parameter
from console.text import Text
from console.text.stored import Stored

NAME_LENGTH_MAX = SECRET_LENGTH_MAX = 255
ENTRY_LENGTH_MAX = 1_000
# AclConstants.ACCESS_KEY_MIN_LENGTH of 4.x is the last refused length.
KEY_LENGTH_MIN = 7
SECRET = "secret"  # noqa: S105 - the name of a parameter
CLUSTER_SUBJECT = "* : accounts and users belong to the whole cluster"


class AclParams(ConfigParams, frozen=True, kw_only=True):
    """Of every kind. ``secret_ref``: of `kept_secrets`, if the plan sets a secret."""

    name: str = ""
    secret_ref: str = ""


class AccountParams(AclParams, frozen=True, kw_only=True):
    """Settings of an account; None: as it is, of a new one RocketMQ's default."""

    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    white_remote_address: str | None = None
    topic_perms: dict[str, str] | None = None
    group_perms: dict[str, str] | None = None


class UserParams(AclParams, frozen=True, kw_only=True):
    """Settings of a user; None: as they are, of a new one RocketMQ's default."""

    user_type: str | None = None
    user_status: str | None = None
    policies: dict[str, str] | None = None


class WhiteParams(AclParams, frozen=True, kw_only=True):
    """Global white addresses."""

    addresses: tuple[str, ...] = ()


class ObjectChange(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """One object on one broker before and after, without its secret; None: not there."""

    before: Mapping[str, str | bool] | None
    after: Mapping[str, str | bool] | None


class AclBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """What a plan changes: broker name → change."""

    name: str
    brokers: dict[str, ObjectChange]


NAME = Parameter("name", most=NAME_LENGTH_MAX, required=True)
A_SECRET = Parameter(SECRET, most=SECRET_LENGTH_MAX, help_text="written only; empty: it stays")
ACCOUNT_SETTINGS = (
    Parameter("admin", bool),
    Parameter("default_topic_perm", choices=PERMS),
    Parameter("default_group_perm", choices=PERMS),
    Parameter("white_remote_address", most=ENTRY_LENGTH_MAX),
    Parameter(
        TOPIC_RIGHT.strip() + "_perms",
        dict,
        most=NAME_LENGTH_MAX,
        help_text="topic → permission; replaces all",
    ),
    Parameter(
        GROUP_RIGHT.strip() + "_perms",
        dict,
        most=NAME_LENGTH_MAX,
        help_text="group → permission; replaces all",
    ),
)
USER_SETTINGS = (
    Parameter("user_type", choices=USER_TYPES),
    Parameter("user_status", choices=USER_STATUSES),
    Parameter(
        "policies",
        dict,
        most=ENTRY_LENGTH_MAX,
        help_text="resource → Allow or Deny, actions, from addresses: Allow Pub, Sub from 192.0.2.0/24; replaces all",
    ),
)
ACCOUNT_PARAMS = Accepted(
    "AclAccountParams",
    "An account of 4.x. Its secret is in no answer.",
    (ACCEPTING, ON_BROKERS, NAME, A_SECRET, *ACCOUNT_SETTINGS),
    subject=CLUSTER_SUBJECT,
)
USER_PARAMS = Accepted(
    "AclUserParams",
    "A user of 5.x and its policies of type Custom. Its secret, the password, is in no answer.",
    (ACCEPTING, ON_BROKERS, NAME, A_SECRET, *USER_SETTINGS),
    subject=CLUSTER_SUBJECT,
)
DELETE_PARAMS = Accepted(
    "AclDeleteParams",
    "An account or user to delete.",
    (ACCEPTING, ON_BROKERS, NAME),
    subject=CLUSTER_SUBJECT,
)
WHITE_PARAMS = Accepted(
    "AclWhiteAddressesParams",
    "Hosts that need no account (4.x), all of them.",
    (ACCEPTING, ON_BROKERS, Parameter("addresses", tuple, most=200, required=True)),
    subject=CLUSTER_SUBJECT,
)


def check_name(name: str, least: int) -> None:
    """Raise PlanRejected("name") for a name that no request can carry."""
    if len(name) < least or not re.fullmatch(r"[!-~]+", name):
        raise PlanRejected(
            Text(
                "Enter a name of at least %(number)s letters, digits or signs, without spaces.", number=least
            ),
            "name",
        )


def check_secret(secret: str) -> None:
    """Raise PlanRejected("secret") for one that brokers refuse or clients cannot sign with; it is not repeated."""
    if len(secret) < KEY_LENGTH_MIN or len(secret) > SECRET_LENGTH_MAX or not re.fullmatch(r"[!-~]+", secret):
        raise PlanRejected(
            Text(
                "Enter a secret of %(least)s to %(most)s letters, digits or signs, without spaces.",
                least=KEY_LENGTH_MIN,
                most=SECRET_LENGTH_MAX,
            ),
            SECRET,
        )
