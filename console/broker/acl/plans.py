"""The plan kinds ``acl_…``: create, change and delete accounts (4.x) and users (5.x), and set white addresses."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any

import msgspec

from console.broker.acl.change import AclPlan, Inputs, takes_secret, where
from console.broker.acl.facts import Generation
from console.broker.acl.params import (
    ACCOUNT_PARAMS,
    DELETE_PARAMS,
    SECRET,
    USER_PARAMS,
    WHITE_PARAMS,
    AccountParams,
    AclParams,
    UserParams,
    WhiteParams,
)
from console.broker.acl.rights import (
    ACCOUNT,
    DENY,
    GROUP_RIGHT,
    NEW,
    SECRET_KEYS,
    TOPIC_RIGHT,
    USER,
    USER_STATUSES,
    USER_TYPES,
    WHITE,
    WHITE_KEY,
    perms_of,
    policies_of,
    policy_config,
    rights,
)
from console.operation.config.row import OBJECT_WORDS, Config, ConfigRow, change_summary
from console.operation.errors import PlanRejected
from console.operation.plan.kinds import AnyPlanKind, PlanWarning
from console.operation.plan.params import Given
from console.text import Text

EVERYWHERE = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})


class AccountPlan(AclPlan[AccountParams], ABC):
    """Of an account of 4.x."""

    params_type = AccountParams
    what, generation = ACCOUNT, Generation.ACCOUNTS

    def target(self, params: AccountParams, before: Config | None) -> Config:
        """Return an account with the requested settings. Raises PlanRejected."""
        known = before or {
            SECRET_KEYS[ACCOUNT]: NEW,
            "admin": False,
            "whiteRemoteAddress": "",
            "defaultTopicPerm": DENY,
            "defaultGroupPerm": DENY,
        }
        topics, groups = params.topic_perms, params.group_perms
        plain = {key: value for key, value in known.items() if not key.startswith((TOPIC_RIGHT, GROUP_RIGHT))}
        given = {
            SECRET_KEYS[ACCOUNT]: NEW if params.secret_ref else None,
            "admin": params.admin,
            "whiteRemoteAddress": params.white_remote_address,
            "defaultTopicPerm": params.default_topic_perm,
            "defaultGroupPerm": params.default_group_perm,
        }
        return {
            **plain,
            **{key: value for key, value in given.items() if value is not None},
            **rights(TOPIC_RIGHT, perms_of(TOPIC_RIGHT, known) if topics is None else topics, "topic_perms"),
            **rights(GROUP_RIGHT, perms_of(GROUP_RIGHT, known) if groups is None else groups, "group_perms"),
        }

    def stakes(self, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn of an administrator."""
        if any((row.after or {}).get("admin") and not (row.before or {}).get("admin") for row in rows):
            return [PlanWarning("warn", Text("An administrator has all permissions"))]
        return []


class UserPlan(AclPlan[UserParams], ABC):
    """Of a user of 5.x."""

    params_type = UserParams
    what, generation = USER, Generation.USERS

    def target(self, params: UserParams, before: Config | None) -> Config:
        """Return a user with the requested settings. Raises PlanRejected."""
        known = before or {
            SECRET_KEYS[USER]: NEW,
            "userType": USER_TYPES[0],
            "userStatus": USER_STATUSES[0],
        }
        given = {
            SECRET_KEYS[USER]: NEW if params.secret_ref else None,
            "userType": params.user_type,
            "userStatus": params.user_status,
        }
        custom = policies_of(known)
        plain = {key: value for key, value in known.items() if key not in custom}
        wanted = custom if params.policies is None else policy_config(params.policies)
        return {**plain, **{key: value for key, value in given.items() if value is not None}, **wanted}

    def stakes(self, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn of a super user."""
        if any(
            (row.after or {}).get("userType") == "Super" and (row.before or {}).get("userType") != "Super"
            for row in rows
        ):
            return [PlanWarning("warn", Text("A super user has all permissions"))]
        return []


def _created(plan: Any, inputs: Inputs[Any]) -> list[ConfigRow]:
    """Return the rows of a new object. Raises PlanRejected where a broker has it already, or without a secret."""
    if not inputs.params.secret_ref:
        raise PlanRejected(Text("Enter the secret that its clients use."), SECRET)
    there = [name for name, acl in inputs.speaking.items() if acl.of(inputs.what, inputs.params.name)]
    if there:
        raise PlanRejected(
            Text(
                "%(name)s already exists on %(brokers)s: change it there, or choose other brokers.",
                name=inputs.params.name,
                brokers=Text.of_names(there),
            ),
            "name",
        )
    target = plan.target(inputs.params, None)
    return [inputs.row(name, None, target) for name in inputs.speaking]


def _changed(plan: Any, inputs: Inputs[Any]) -> list[ConfigRow]:
    """Return the rows of a change on each broker that has the object."""
    return [
        inputs.row(name, config, plan.target(inputs.params, config))
        for name, config in inputs.holders.items()
    ]


def _created_words(what: str, name: str, rows: Sequence[ConfigRow]) -> Text:
    return Text(
        "Create %(what)s %(name)s on %(where)s.", what=OBJECT_WORDS[what], name=name, where=where(rows)
    )


def _change_warnings(rows: Sequence[ConfigRow]) -> list[PlanWarning]:
    if not takes_secret(rows):
        return []
    text = Text("The former secret is not stored: undo restores permissions and keeps the new secret.")
    return [PlanWarning("danger", Text("Clients with the former secret will be refused immediately"), text)]


class AccountCreatePlan(AccountPlan):
    """Create an account."""

    kind = "acl_account_create"
    title = Text("New account")
    action = Text("Create the account")
    accepted = ACCOUNT_PARAMS
    only_adds = True

    def rows(self, inputs: Inputs[AccountParams]) -> list[ConfigRow]:
        """Return the new account on every chosen broker."""
        return _created(self, inputs)

    def summary(self, name: str, rows: Sequence[ConfigRow]) -> Text:
        """Name the account and its brokers."""
        return _created_words(self.what, name, rows)

    def warnings(self, params: AccountParams, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn of an administrator."""
        return self.stakes(rows)


class AccountChangePlan(AccountPlan):
    """Change an account: its rights, or its secret."""

    kind = "acl_account_change"
    title = Text("Account change")
    action = Text("Change the account")
    accepted = ACCOUNT_PARAMS

    def rows(self, inputs: Inputs[AccountParams]) -> list[ConfigRow]:
        """Return the account before and after."""
        return _changed(self, inputs)

    def summary(self, name: str, rows: Sequence[ConfigRow]) -> Text:
        """Name every key that changes."""
        return change_summary(name, rows)

    def warnings(self, params: AccountParams, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn of an administrator and of a new secret."""
        return self.stakes(rows) + _change_warnings(rows)


class UserCreatePlan(UserPlan):
    """Create a user with its policies."""

    kind = "acl_user_create"
    title = Text("New user")
    action = Text("Create the user")
    accepted = USER_PARAMS
    only_adds = True

    def rows(self, inputs: Inputs[UserParams]) -> list[ConfigRow]:
        """Return the new user on every chosen broker."""
        return _created(self, inputs)

    def summary(self, name: str, rows: Sequence[ConfigRow]) -> Text:
        """Name the user and its brokers."""
        return _created_words(self.what, name, rows)

    def warnings(self, params: UserParams, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn of a super user."""
        return self.stakes(rows)


class UserChangePlan(UserPlan):
    """Change a user: type, status, policies, or its secret."""

    kind = "acl_user_change"
    title = Text("User change")
    action = Text("Change the user")
    accepted = USER_PARAMS

    def rows(self, inputs: Inputs[UserParams]) -> list[ConfigRow]:
        """Return the user before and after."""
        return _changed(self, inputs)

    def summary(self, name: str, rows: Sequence[ConfigRow]) -> Text:
        """Name every key that changes."""
        return change_summary(name, rows)

    def warnings(self, params: UserParams, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn of a super user and of a new secret."""
        return self.stakes(rows) + _change_warnings(rows)


class _DeletePlan(AclPlan[AclParams], ABC):
    params_type = AclParams
    accepted = DELETE_PARAMS

    def rows(self, inputs: Inputs[AclParams]) -> list[ConfigRow]:
        """Return the deletion on every chosen broker that has it."""
        return [inputs.row(name, config, None) for name, config in inputs.holders.items()]

    def summary(self, name: str, rows: Sequence[ConfigRow]) -> Text:
        """Name what is deleted, and where."""
        return Text(
            "Delete %(what)s %(name)s on %(where)s.",
            what=OBJECT_WORDS[self.what],
            name=name,
            where=where(rows),
        )

    def warnings(self, params: AclParams, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn that clients are cut off, and that the secret is gone."""
        text = Text(
            "Undo creates it again with its permissions, but not with its secret, which is not stored "
            "anywhere. It gets a random secret until you set another."
        )
        return [PlanWarning("danger", Text("Its clients will be refused"), text)]


class AccountDeletePlan(_DeletePlan):
    """Delete an account."""

    kind = "acl_account_delete"
    title = Text("Account deletion")
    action = Text("Delete the account")
    what, generation = ACCOUNT, Generation.ACCOUNTS


class UserDeletePlan(_DeletePlan):
    """Delete a user with its policies."""

    kind = "acl_user_delete"
    title = Text("User deletion")
    action = Text("Delete the user")
    what, generation = USER, Generation.USERS


class WhiteAddressesPlan(AclPlan[WhiteParams]):
    """Replace the hosts that need no account (4.x)."""

    kind = "acl_white_addresses"
    title = Text("Change of white addresses")
    params_type = WhiteParams
    action = Text("Set the white addresses")
    accepted = WHITE_PARAMS
    what, generation = WHITE, Generation.ACCOUNTS

    def read_params(self, given: Given) -> WhiteParams:
        """Read the addresses. Raises PlanRejected(field)."""
        found = super().read_params(given)
        if not found.addresses:
            raise PlanRejected(Text("Enter at least one address."), "addresses")
        return msgspec.structs.replace(found, name=WHITE_KEY)

    def rows(self, inputs: Inputs[WhiteParams]) -> list[ConfigRow]:
        """Return the addresses of every chosen broker."""
        after: Config = {WHITE_KEY: ", ".join(inputs.params.addresses)}
        return [inputs.row(name, config, after) for name, config in inputs.holders.items()]

    def summary(self, name: str, rows: Sequence[ConfigRow]) -> Text:
        """Name the addresses before and after."""
        return change_summary(name, rows)

    def warnings(self, params: WhiteParams, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Warn of addresses that let everyone in, and that others are checked from now on."""
        if EVERYWHERE & set(params.addresses):
            text = Text("Any client can then do anything on these brokers, without an account.")
            return [PlanWarning("danger", Text("Every client gets access"), text)]
        return [PlanWarning("warn", Text("Hosts that are no longer listed will need an account immediately"))]


PLANS: tuple[AnyPlanKind, ...] = (
    AccountCreatePlan(),
    AccountChangePlan(),
    AccountDeletePlan(),
    UserCreatePlan(),
    UserChangePlan(),
    UserDeletePlan(),
    WhiteAddressesPlan(),
)
