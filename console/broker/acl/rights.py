"""An account of 4.x or a user of 5.x as keys and values without its secret, and back to what brokers take.

A right is a key: `topic orders` of an account, `Topic:orders` of a user; so a diff shows each right.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping

from console.brokers.mqadmin import AclInfo, PlainAccessConfig, PolicyEntryInfo, PolicyInfo, UserInfo
from console.operation.config.row import Config
from console.operation.errors import PlanRejected
from console.text import Names, Text

# ``what`` of a row.
ACCOUNT, USER, WHITE = "account", "user", "white addresses"
# Instead of a secret: one that a broker keeps, and one that a plan sets.
STORED, NEW = "stored", "new"
SECRET_KEYS: Mapping[str, str] = {ACCOUNT: "secretKey", USER: "password"}
WHITE_KEY = "globalWhiteRemoteAddresses"
DENY = "DENY"
PERMS = (DENY, "PUB", "SUB", "PUB|SUB")
USER_TYPES, USER_STATUSES = ("Normal", "Super"), ("enable", "disable")
ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
SUBJECT_PREFIX = "User:"
TOPIC_RIGHT, GROUP_RIGHT, DEFAULT_POLICY = "topic ", "group ", "Default "
CUSTOM = "Custom"
# Of a user; every other key is a policy.
USER_KEYS = ("password", "userType", "userStatus")
_RESOURCE = re.compile(r"\*|(?:Cluster|Namespace|Topic|Group):\S+")
_POLICY = re.compile(r"(Allow|Deny)\s+([A-Za-z]+(?:\s*,\s*[A-Za-z]+)*)(?:\s+from\s+(\S.*))?")


def without_new_secret(config: Config | None) -> Config | None:
    """Return a configuration as brokers show it: whether a secret is a new one cannot be seen."""
    return config and {key: STORED if key in SECRET_KEYS.values() else value for key, value in config.items()}


# --- Accounts of 4.x ---


def account_config(account: PlainAccessConfig) -> Config:
    """Return an account; what it does not name denies, as in Java."""
    return {
        SECRET_KEYS[ACCOUNT]: STORED,
        "admin": account.admin,
        "whiteRemoteAddress": account.white_remote_address or "",
        "defaultTopicPerm": account.default_topic_perm or DENY,
        "defaultGroupPerm": account.default_group_perm or DENY,
        **_entries(TOPIC_RIGHT, account.topic_perms),
        **_entries(GROUP_RIGHT, account.group_perms),
    }


def account_of(name: str, config: Config, secret: str | None) -> PlainAccessConfig:
    """Return an account as a broker takes it, which needs its secret key too."""
    return PlainAccessConfig(
        access_key=name,
        secret_key=secret,
        white_remote_address=config["whiteRemoteAddress"],
        admin=config["admin"],
        default_topic_perm=config["defaultTopicPerm"],
        default_group_perm=config["defaultGroupPerm"],
        # 4.9.7 refuses an empty list.
        topic_perms=list(_perms(TOPIC_RIGHT, config)) or None,
        group_perms=list(_perms(GROUP_RIGHT, config)) or None,
    )


def rights(prefix: str, perms: Mapping[str, str], field: str) -> Config:
    """Return the rights of an account on topics or groups. Raises PlanRejected(field)."""
    for name, perm in perms.items():
        if not name or re.search(r"[\s,=]", name) or perm not in PERMS:
            raise PlanRejected(
                Text(
                    "%(entry)s is not a permission. Enter name=permission with one of %(words)s.",
                    entry=f"{name}={perm}",
                    words=Names(PERMS),
                ),
                field,
            )
    return {f"{prefix}{name}": perm for name, perm in sorted(perms.items())}


def perms_of(prefix: str, config: Config) -> dict[str, str]:
    """Return name → permission of an account's rights on topics or groups."""
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}


def _entries(prefix: str, entries: Iterable[str] | None) -> Config:
    pairs = (entry.partition("=") for entry in entries or ())
    return {f"{prefix}{name.strip()}": perm.strip() for name, _, perm in sorted(pairs)}


def _perms(prefix: str, config: Config) -> Iterator[str]:
    for name, perm in perms_of(prefix, config).items():
        yield f"{name}={perm}"


# --- Users of 5.x ---


def user_config(user: UserInfo, acl: AclInfo | None) -> Config:
    """Return a user with its policies."""
    found: Config = {
        SECRET_KEYS[USER]: STORED,
        "userType": user.user_type or USER_TYPES[0],
        "userStatus": user.user_status or USER_STATUSES[0],
    }
    entries: Config = {}
    for policy in acl.policies if acl is not None else ():
        prefix = "" if (policy.policy_type or CUSTOM) == CUSTOM else DEFAULT_POLICY
        for entry in policy.entries:
            entries[f"{prefix}{entry.resource}"] = _policy_words(entry)
    return found | dict(sorted(entries.items()))


def user_of(name: str, config: Config, secret: str | None) -> UserInfo:
    """Return a user as a broker takes it; without a secret the broker keeps its own."""
    return UserInfo(name, secret, config["userType"], config["userStatus"])


def policies_of(config: Config) -> dict[str, str]:
    """Return resource → decision, actions and addresses, of policies of type Custom."""
    return {
        key: value
        for key, value in config.items()
        if key not in USER_KEYS and not key.startswith(DEFAULT_POLICY)
    }


def acl_of(name: str, policies: Mapping[str, str]) -> AclInfo:
    """Return policies as a broker takes them."""
    entries = [read_policy(resource, words) for resource, words in policies.items()]
    return AclInfo(SUBJECT_PREFIX + name, [PolicyInfo(CUSTOM, entries)])


def read_policy(resource: str, words: str) -> PolicyEntryInfo:
    """Read `Allow Pub, Sub from 192.0.2.0/24`. Raises PlanRejected("policies") that names what is wrong."""
    matched = _POLICY.fullmatch(words.strip())
    if not _RESOURCE.fullmatch(resource) or matched is None:
        raise PlanRejected(
            Text(
                "%(entry)s is not a policy. Enter a resource (%(resources)s), Allow or Deny, actions "
                "and, to limit it, addresses: %(example)s.",
                entry=f"{resource}={words}",
                resources="Topic:orders, Group:billing-*, Cluster:*, *",
                example="Topic:orders=Allow Pub, Sub from 192.0.2.0/24",
            ),
            "policies",
        )
    decision, listed, sources = matched.groups()
    actions = [word.strip() for word in listed.split(",")]
    for action in actions:
        if action not in ACTIONS:
            raise PlanRejected(
                Text("Unknown action %(name)s. Actions: %(known)s.", name=action, known=Names(ACTIONS)),
                "policies",
            )
    source_ips = [source.strip() for source in sources.split(",")] if sources else []
    for source in source_ips:
        try:
            ipaddress.ip_network(source, strict=False)
        except ValueError:
            raise PlanRejected(
                Text("%(address)s is not an address or a network like 192.0.2.0/24.", address=source),
                "policies",
            ) from None
    return PolicyEntryInfo(resource, sorted(actions, key=ACTIONS.index), source_ips or None, decision)


def policy_config(policies: Mapping[str, str]) -> Config:
    """Return policies in one spelling. Raises PlanRejected("policies")."""
    return {name: _policy_words(read_policy(name, words)) for name, words in sorted(policies.items())}


def _policy_words(entry: PolicyEntryInfo) -> str:
    known = sorted(entry.actions, key=lambda word: ACTIONS.index(word) if word in ACTIONS else len(ACTIONS))
    words = f"{entry.decision} {', '.join(known)}"
    return f"{words} from {', '.join(entry.source_ips)}" if entry.source_ips else words
