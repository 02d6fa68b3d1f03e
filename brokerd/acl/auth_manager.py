"""Users and policies of 5.x: the tables, their files under config/, and the check of a request against them.

Source: `AuthenticationMetadataManagerImpl.java`, `AuthorizationMetadataManagerImpl.java`, `DefaultAuthenticationHandler
.java`. Java keeps them in RocksDB; here they are users.json and acls.json. Single-threaded: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from brokerd.acl.auth_rights import needed_accesses
from brokerd.acl.policy import (
    DENY,
    USER_PREFIX,
    Acl,
    Resource,
    acl_info,
    parse_acl,
    policy_type,
    without,
    word_of,
)
from brokerd.acl.verification import is_signed_with
from brokerd.config import AclConfig, ConfigError, whitelist
from brokerd.remoting.body import fastjson
from brokerd.remoting.body.acl import AclInfo, UserInfo
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import BodyError, MQBrokerError, error_for
from brokerd.remoting.signature import ACCESS_KEY, AccessKeys
from brokerd.tables import config_manager
from brokerd.tables.table_file import TableFile

logger = logging.getLogger(__name__)

SUPER, NORMAL = "Super", "Normal"
ENABLE, DISABLE = "enable", "disable"


@dataclass(frozen=True, slots=True)
class User:
    """A person or program that signs with its password."""

    username: str
    password: str = field(repr=False)
    user_type: str = NORMAL
    user_status: str = ENABLE

    @property
    def is_super(self) -> bool:
        return self.user_type == SUPER

    def info(self) -> UserInfo:
        return UserInfo(self.username, self.password, self.user_type, self.user_status)


def denied(reason: str) -> MQBrokerError:
    return error_for(ResponseCode.NO_PERMISSION, reason)


class AuthManager:
    """The tables in force; a change is written by TableWriter."""

    def __init__(self, folder: Path, config: AclConfig, cluster: str) -> None:
        """Raise TableUnreadable: without its tables a broker would refuse or allow what it should not; ConfigError."""
        self._config = config
        self._cluster = cluster
        # What this broker signs with when it asks another one.
        self.inner_client = _credentials_of_setting(config.inner_client_authentication_credentials)
        self._unauthenticated = whitelist("authenticationWhitelist", config.authentication_whitelist)
        self._unauthorized = whitelist("authorizationWhitelist", config.authorization_whitelist)
        self.users_file = TableFile(folder / "users.json", self._users_document, is_private=True)
        self.acls_file = TableFile(folder / "acls.json", self._acls_document)
        self.users: dict[str, User] = config_manager.load(self.users_file.path, _read_users) or {}
        self.acls: dict[str, Acl] = config_manager.load(self.acls_file.path, _read_acls) or {}

    def make_first_users(self) -> None:
        """Make the users of the settings that do not exist. Raises ConfigError."""
        first = _user_of_setting("initAuthenticationUser", self._config.init_authentication_user)
        inner = self.inner_client
        for user in (first, User(inner.access_key, inner.secret_key, SUPER) if inner is not None else None):
            if user is not None and user.username not in self.users:
                self._put_user(user)
                logger.info("user made from the settings username=%s", user.username)
        if self._config.authentication_enabled and not any(user.is_super for user in self.users.values()):
            raise ConfigError(
                "authenticationEnabled=true, but no super user exists: every administrator would be refused. Set "
                'initAuthenticationUser={"username":"admin","password":"…"}'
            )

    def check(self, command: RemotingCommand, host: str) -> None:
        """Raise NO_PERMISSION with the missing right for what the sender may not do."""
        if self._config.authentication_enabled and command.code not in self._unauthenticated:
            self._authenticate(command)
        if self._config.authorization_enabled and command.code not in self._unauthorized:
            self._authorize(command, host)

    def _authenticate(self, command: RemotingCommand) -> None:
        name = command.ext_fields.get(ACCESS_KEY)
        if not name:
            raise denied("username cannot be null.")
        user = self.users.get(name)
        if user is None:
            raise denied(f"User:{name} is not found.")
        if user.user_status == DISABLE:
            raise denied(f"User:{name} is disabled.")
        if not is_signed_with(user.password, command):
            raise denied(f"check signature failed. User:{name}")

    def _authorize(self, command: RemotingCommand, host: str) -> None:
        accesses = needed_accesses(command, self._cluster)
        if not accesses:
            return
        name = command.ext_fields.get(ACCESS_KEY, "")
        user = self.users.get(name)
        if user is None:
            raise denied(f"User:{name} not found.")
        if user.is_super:
            return
        acl = self.acls.get(USER_PREFIX + name)
        for access in accesses:
            entry = acl.deciding(access.resource, access.actions, host) if acl is not None else None
            if entry is None or entry.decision == DENY:
                why = "no matched policies." if entry is None else "the decision is deny."
                raise denied(
                    f"User:{name} has no permission to access {access.resource} from {host}, {why} "
                    f"It needs {' or '.join(access.actions)}"
                )

    def is_super(self, name: str) -> bool:
        """Raise NO_PERMISSION for a user that does not exist."""
        user = self.users.get(name)
        if user is None:
            raise denied(f"User:{name} is not found")
        return user.is_super

    def create_user(self, info: UserInfo) -> None:
        """Raise NO_PERMISSION for one that exists, INVALID_PARAMETER for one that cannot."""
        if info.username in self.users:
            raise denied("The user is existed")
        if not (info.password or "").strip():
            raise denied("password can not be blank")
        self._put_user(_changed(User(info.username, ""), info))

    def update_user(self, info: UserInfo) -> None:
        known = self.users.get(info.username)
        if known is None:
            raise denied("The user is not exist")
        self._put_user(_changed(known, info))

    def delete_user(self, name: str) -> None:
        """Its policies go with it."""
        if self.users.pop(name, None) is not None:
            self.users_file.changed()
        self._drop_acl(USER_PREFIX + name)

    def list_users(self, name_filter: str) -> list[UserInfo]:
        return [user.info() for name, user in sorted(self.users.items()) if name_filter in name]

    def put_acl(self, info: AclInfo) -> None:
        """Make policies, or change the named entries of those a subject has. Raises MQBrokerError."""
        self._require_subject(info.subject, f"The subject of {info.subject} is not exist.")
        try:
            acl = parse_acl(info, self.acls.get(info.subject, Acl()))
        except ValueError as error:
            raise denied(str(error)) from None
        self.acls[info.subject] = acl
        self.acls_file.changed()

    def delete_acl(self, subject: str, kind: str | None, resource: Resource | None) -> None:
        """Delete one entry, or everything of the subject without a resource."""
        self._require_subject(subject, "The subject is not exist.")
        acl = self.acls.get(subject)
        if acl is None:
            raise denied("The acl is not exist.")
        left = without(acl, policy_type(kind), resource) if resource is not None else Acl()
        if left == Acl():
            self._drop_acl(subject)
            return
        self.acls[subject] = left
        self.acls_file.changed()

    def get_acl(self, subject: str) -> AclInfo | None:
        self._require_subject(subject, "The subject is not exist.")
        acl = self.acls.get(subject)
        return acl_info(subject, acl) if acl is not None else None

    def list_acls(self, subject_filter: str, resource_filter: str) -> list[AclInfo]:
        """Return policies of subjects that contain the filter; entries too, unless the subject contains theirs."""
        found = []
        for subject, acl in sorted(self.acls.items()):
            if subject_filter in subject:
                info = acl_info(subject, acl, "" if resource_filter in subject else resource_filter)
                if info.policies:
                    found.append(info)
        return found

    def _require_subject(self, subject: str, otherwise: str) -> None:
        if not subject.startswith(USER_PREFIX):
            raise error_for(ResponseCode.INVALID_PARAMETER, f"subject {subject!r} is not {USER_PREFIX}name")
        if subject.removeprefix(USER_PREFIX) not in self.users:
            raise denied(otherwise)

    def _drop_acl(self, subject: str) -> None:
        if self.acls.pop(subject, None) is not None:
            self.acls_file.changed()

    def _put_user(self, user: User) -> None:
        self.users[user.username] = user
        self.users_file.changed()

    def _users_document(self) -> Iterator[bytes]:
        users = [user.info().to_value() for _, user in sorted(self.users.items())]
        return iter([config_manager.encode_document({"users": users})])

    def _acls_document(self) -> Iterator[bytes]:
        acls = [acl_info(subject, acl).to_value() for subject, acl in sorted(self.acls.items())]
        return iter([config_manager.encode_document({"acls": acls})])


def _changed(known: User, info: UserInfo) -> User:
    """Return the user with what is given. Raises INVALID_PARAMETER for a type or status that does not exist."""
    user_type, user_status = (
        word_of(info.user_type, (SUPER, NORMAL)),
        word_of(info.user_status, (ENABLE, DISABLE)),
    )
    for name, given, known_word, words in (
        ("userType", info.user_type, user_type, (SUPER, NORMAL)),
        ("userStatus", info.user_status, user_status, (ENABLE, DISABLE)),
    ):
        if given and known_word is None:
            raise error_for(ResponseCode.INVALID_PARAMETER, f"{name} {given!r} is none of {', '.join(words)}")
    return replace(
        known,
        password=info.password if info.password and info.password.strip() else known.password,
        user_type=user_type or known.user_type,
        user_status=user_status or known.user_status,
    )


def _user_of_setting(key: str, text: str) -> User | None:
    if not text.strip():
        return None
    try:
        info = UserInfo.from_body(text.encode())
    except BodyError:
        info = UserInfo()
    if not info.username.strip() or not (info.password or "").strip():
        raise ConfigError(f'{key}: takes {{"username":"…","password":"…"}}')  # its value is a secret
    return User(info.username, info.password or "", SUPER)


def _credentials_of_setting(text: str) -> AccessKeys | None:
    key = "innerClientAuthenticationCredentials"
    if not text.strip():
        return None
    try:
        credentials = fastjson.loads(text.encode())
    except BodyError:
        credentials = None
    if (
        not isinstance(credentials, dict)
        or not credentials.get("accessKey")
        or not credentials.get("secretKey")
    ):
        raise ConfigError(f'{key}: takes {{"accessKey":"…","secretKey":"…"}}')
    return AccessKeys(str(credentials["accessKey"]), str(credentials["secretKey"]))


def _read_users(content: bytes) -> dict[str, User]:
    users = {}
    for value in fastjson.loads(content)["users"]:
        info = UserInfo.from_value(value)
        users[info.username] = _changed(User(info.username, ""), info)
    return users


def _read_acls(content: bytes) -> dict[str, Acl]:
    infos = [AclInfo.from_value(value) for value in fastjson.loads(content)["acls"]]
    return {info.subject: parse_acl(info) for info in infos}
