"""Who may do what on each broker, as the brokers report it now, without any secret."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Mapping

from console.broker.acl.rights import (
    ACCOUNT,
    NEW,
    SECRET_KEYS,
    SUBJECT_PREFIX,
    USER,
    WHITE,
    WHITE_KEY,
    account_config,
    user_config,
)
from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin
from console.brokers.queues import ask_each, require_answer
from console.operation.config.row import Config
from console.text import Text

# Keys of a broker's configuration that decide whether requests are checked.
SETTINGS = ("aclEnable", "authenticationEnabled", "authorizationEnabled")
READ_DEADLINE_MS = 5_000


class Generation(enum.StrEnum):
    """What a broker decides by; the values are in REST."""

    ACCOUNTS = "accounts"
    USERS = "users"
    NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerAcl:
    """Access control of one broker.

    ``objects``: (what, name) → configuration: accounts or users, and white addresses. ``settings``: those of `SETTINGS`
    that the broker has.
    """

    generation: Generation
    settings: Mapping[str, str]
    objects: Mapping[tuple[str, str], Config]

    @property
    def is_checked(self) -> bool:
        """Return whether the broker checks who sends a request."""
        return "true" in (self.settings.get("aclEnable"), self.settings.get("authenticationEnabled"))

    def of(self, what: str, name: str) -> Config | None:
        """Return one configuration; None if the broker does not have it."""
        return self.objects.get((what, name))


@dataclasses.dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret that a job sets: an account or user that has it is shown with `NEW`."""

    name: str
    value: str = dataclasses.field(repr=False)

    def marked(self, what: str, name: str, found: str | None, config: Config) -> Config:
        """Return the configuration of one whose secret was read as ``found``."""
        return {**config, SECRET_KEYS[what]: NEW} if (name, found) == (self.name, self.value) else config


async def ask_acl(client: MQAdmin, addr: str, new: NewSecret | None = None) -> BrokerAcl:
    """Read the settings of a broker, then what it decides by.

    Asked for accounts without aclEnable, a broker of 4.9.7 does not answer. Raises as MQAdmin.
    """
    config = await client.broker_config(addr)
    settings = {key: config[key] for key in SETTINGS if key in config}
    if settings.get("aclEnable") == "true":
        return BrokerAcl(Generation.ACCOUNTS, settings, await _accounts(client, addr, new))
    if "authenticationEnabled" in settings:
        return BrokerAcl(Generation.USERS, settings, await _users(client, addr, new))
    return BrokerAcl(Generation.NONE, settings, {})


async def _accounts(client: MQAdmin, addr: str, new: NewSecret | None) -> dict[tuple[str, str], Config]:
    found = await client.acl_config(addr)
    objects: dict[tuple[str, str], Config] = {
        (WHITE, WHITE_KEY): {WHITE_KEY: ", ".join(found.global_white_addrs)}
    }
    for account in sorted(found.plain_access_configs, key=lambda each: each.access_key):
        name, config = account.access_key, account_config(account)
        objects[ACCOUNT, name] = new.marked(ACCOUNT, name, account.secret_key, config) if new else config
    return objects


async def _users(client: MQAdmin, addr: str, new: NewSecret | None) -> dict[tuple[str, str], Config]:
    users, acls = await asyncio.gather(client.users(addr), client.acls(addr))
    of_subject = {acl.subject: acl for acl in acls}
    objects: dict[tuple[str, str], Config] = {}
    for user in sorted(users, key=lambda each: each.username):
        name, config = user.username, user_config(user, of_subject.get(SUBJECT_PREFIX + user.username))
        objects[USER, name] = new.marked(USER, name, user.password, config) if new else config
    return objects


def read_acls(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], new: NewSecret | None = None
) -> dict[str, BrokerAcl]:
    """Return broker name → access control. Raises BrokerUnavailable for a silent broker, MQBrokerError."""
    answers = ask_each(admin, addrs, lambda client, addr: ask_acl(client, addr, new), READ_DEADLINE_MS)
    return {
        name: require_answer(name, addrs[name], answer, Text("who may use it"))
        for name, answer in answers.items()
    }
