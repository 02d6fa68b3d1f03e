"""Read and write plain_acl.yml: white addresses, accounts, version. Every error names the line and what to do.

Source: `PlainPermissionManager.java`, `AclUtils.java`. Values are taken as text, whatever YAML would make of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml

from brokerd.acl.plain_rights import PERMS, Perm
from brokerd.acl.remote_addresses import AddressPattern, parse_addresses
from brokerd.config import ConfigError
from brokerd.remoting.body.acl import PlainAccessConfig
from brokerd.remoting.body.topic import DataVersion
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX

KEY_LENGTH_MIN = (
    7  # of access keys and secret keys: AclConstants.ACCESS_KEY_MIN_LENGTH is the last refused length
)
FILE_BYTES_MAX = 16 * 1024 * 1024  # 50,000 accounts; more is no account file
Value = TypeVar("Value")
Result = TypeVar("Result")
NO_VALUE = ("", "~", "null")


class AclFileError(ConfigError):
    """An account file that cannot be used; the text names the file, the line and what would be right."""


@dataclass(frozen=True, slots=True)
class PlainAccess:
    """One account, parsed."""

    access_key: str
    secret_key: str = field(repr=False)
    addresses: AddressPattern
    admin: bool
    default_topic_perm: Perm
    default_group_perm: Perm
    topics: Mapping[str, Perm]
    groups: Mapping[str, Perm]


@dataclass(frozen=True, slots=True)
class AclFile:
    """What one file holds."""

    white_addresses: tuple[str, ...] = ()
    accounts: tuple[PlainAccessConfig, ...] = ()
    version: DataVersion = field(default_factory=DataVersion)
    warnings: tuple[str, ...] = ()


def plain_access(config: PlainAccessConfig) -> PlainAccess:
    """Check an account. Raises ValueError that names what is wrong, without the secret."""
    for name, value in (("accessKey", config.access_key), ("secretKey", config.secret_key or "")):
        if len(value) < KEY_LENGTH_MIN:
            shown = f"={value}" if name == "accessKey" else f" of accessKey={config.access_key}"
            raise ValueError(f"{name}{shown} has {len(value)} characters: it needs {KEY_LENGTH_MIN} or more")
    topics, groups = _perms("topicPerms", config.topic_perms), _perms("groupPerms", config.group_perms)
    for topic in [name for name in topics if name.startswith(RETRY_TOPIC_PREFIX)]:
        groups[topic.removeprefix(RETRY_TOPIC_PREFIX)] = topics.pop(topic)
    return PlainAccess(
        config.access_key,
        config.secret_key or "",
        parse_addresses(config.white_remote_address or ""),
        config.admin,
        _perm(config.default_topic_perm),
        _perm(config.default_group_perm),
        topics,
        groups,
    )


def unknown_perms(config: PlainAccessConfig) -> list[str]:
    """Return the permissions that are no word of RocketMQ's: they deny, as in Java."""
    given = [config.default_topic_perm, config.default_group_perm]
    given += [entry.partition("=")[2] for entry in [*(config.topic_perms or ()), *(config.group_perms or ())]]
    return [word for word in given if word and word.strip() not in PERMS]


def _perm(word: str | None) -> Perm:
    return PERMS.get((word or "").strip(), Perm.DENY)


def _perms(name: str, entries: list[str] | None) -> dict[str, Perm]:
    perms = {}
    for entry in entries or ():
        resource, separator, word = entry.partition("=")
        if not separator or "=" in word or not resource.strip():
            raise ValueError(f"{name} {entry!r} is not name=permission: write one like orders=PUB|SUB")
        perms[resource.strip()] = _perm(word)
    return perms


def read_acl_file(path: Path) -> AclFile:
    """Read and check a file. Raises AclFileError; OSError when it cannot be opened."""
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise AclFileError(f"{path}: more than {FILE_BYTES_MAX} bytes are no account file")
    try:
        return _Reader(path).read(yaml.compose(content.decode(), Loader=yaml.SafeLoader))
    except UnicodeDecodeError as error:
        raise AclFileError(f"{path}: it is not UTF-8 ({error}): save it as UTF-8") from None
    except RecursionError:
        raise AclFileError(f"{path}: it is nested too deeply to be an account file") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise AclFileError(f"{path}{line}: this is not YAML ({error.problem}): correct it there") from None
    except yaml.YAMLError as error:
        raise AclFileError(f"{path}: this is not YAML ({error}): correct it") from None


class _Reader:
    """Turns the nodes of one file into values; errors carry the node's line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warnings: list[str] = []

    def read(self, root: yaml.Node | None) -> AclFile:
        if root is None or (isinstance(root, yaml.ScalarNode) and root.value in NO_VALUE):
            return AclFile()
        members = self._members(root, "the file")
        white = self._texts(members.pop("globalWhiteRemoteAddresses", None), "globalWhiteRemoteAddresses")
        accounts: dict[str, PlainAccessConfig] = {}
        for node in self._items(members.pop("accounts", None), "accounts"):
            account = self._account(node)
            if account.access_key in accounts:
                self._warn(node, f"accessKey {account.access_key} is repeated; the first one counts")
            accounts.setdefault(account.access_key, account)
        version = self._version(members.pop("dataVersion", None))
        for name, node in members.items():
            self._warn(node, f"{name} has no effect: unknown to this broker")
        return AclFile(tuple(white), tuple(accounts.values()), version, tuple(self._warnings))

    def _account(self, node: yaml.Node) -> PlainAccessConfig:
        members = self._members(node, "an account")
        config = PlainAccessConfig(
            access_key=self._text(members.pop("accessKey", None)) or "",
            secret_key=self._text(members.pop("secretKey", None)),
            white_remote_address=self._text(members.pop("whiteRemoteAddress", None)),
            admin=(self._text(members.pop("admin", None)) or "").lower() == "true",
            default_topic_perm=self._text(members.pop("defaultTopicPerm", None)),
            default_group_perm=self._text(members.pop("defaultGroupPerm", None)),
            topic_perms=self._optional_texts(members.pop("topicPerms", None), "topicPerms"),
            group_perms=self._optional_texts(members.pop("groupPerms", None), "groupPerms"),
        )
        self._checked(node, plain_access, config)
        for word in unknown_perms(config):
            self._warn(
                node, f"permission {word!r} of {config.access_key} denies: it is none of {', '.join(PERMS)}"
            )
        for name, member in members.items():
            self._warn(member, f"{name} of {config.access_key} has no effect: unknown to this broker")
        return config

    def _version(self, node: yaml.Node | None) -> DataVersion:
        for item in self._items(node, "dataVersion"):
            members = self._members(item, "dataVersion")
            counter, timestamp = self._text(members.get("counter")), self._text(members.get("timestamp"))
            return DataVersion(
                counter=self._checked(item, int, counter or "0"),
                timestamp=self._checked(item, int, timestamp or "0"),
            )
        return DataVersion()

    def _texts(self, node: yaml.Node | None, name: str) -> list[str]:
        texts = [(item, self._text(item) or "") for item in self._items(node, name)]
        for item, text in texts:
            self._checked(item, parse_addresses, text)
        return [text for _, text in texts]

    def _optional_texts(self, node: yaml.Node | None, name: str) -> list[str] | None:
        return None if node is None else [self._text(item) or "" for item in self._items(node, name)]

    def _checked(self, node: yaml.Node, check: Callable[[Value], Result], value: Value) -> Result:
        try:
            return check(value)
        except ValueError as error:
            raise self._error(node, str(error)) from None

    def _members(self, node: yaml.Node, what: str) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must be `name: value` lines")
        members: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self._text(key) or ""
            if name in members:
                raise self._error(key, f"{name} stands twice in {what}: delete one")
            members[name] = value
        return members

    def _items(self, node: yaml.Node | None, name: str) -> list[yaml.Node]:
        if node is None or (isinstance(node, yaml.ScalarNode) and node.value in NO_VALUE):
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, f"{name} must be a list, a line with `- ` for each")
        return list(node.value)

    def _text(self, node: yaml.Node | None) -> str | None:
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, "this must be one value")
        is_absent = node.style is None and node.value in NO_VALUE
        return None if is_absent else str(node.value)

    def _error(self, node: yaml.Node, reason: str) -> AclFileError:
        return AclFileError(f"{self._path}, line {node.start_mark.line + 1}: {reason}")

    def _warn(self, node: yaml.Node, reason: str) -> None:
        self._warnings.append(f"{self._path}, line {node.start_mark.line + 1}: {reason}")


def acl_file_text(file: AclFile) -> str:
    """Return the file as YAML. Comments are lost, as Java loses them."""
    document = {
        "globalWhiteRemoteAddresses": list(file.white_addresses),
        "accounts": [account.to_value() for account in file.accounts],
        "dataVersion": [{"counter": file.version.counter, "timestamp": file.version.timestamp}],
    }
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
