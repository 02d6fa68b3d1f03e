"""Accounts of 4.x: the table that every request is checked against, its files, changes of both.

Source: `PlainPermissionManager.java`, `PlainAccessValidator.java`. Single-threaded: the event loop.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from brokerd.acl.plain_acl_file import (
    AclFile,
    AclFileError,
    PlainAccess,
    acl_file_text,
    plain_access,
    read_acl_file,
    unknown_perms,
)
from brokerd.acl.plain_rights import ADMIN_CODES, PERMS, TRACE_RIGHT, Perm, Right, needed_rights
from brokerd.acl.remote_addresses import AddressPattern, parse_addresses
from brokerd.acl.verification import is_signed_with
from brokerd.remoting.body.acl import AclConfig, PlainAccessConfig
from brokerd.remoting.body.topic import DataVersion
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.signature import ACCESS_KEY
from brokerd.tables.table_file import TableFile, TableWriter

logger = logging.getLogger(__name__)

SUFFIXES = (".yml", ".yaml")
WHITE_HOSTS_MAX = 10_000  # remembered; one for each address that connects
Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PlainAclTable:
    """All files together. An access key counts where it stands first."""

    files: Mapping[Path, AclFile] = field(default_factory=dict)
    accounts: Mapping[str, PlainAccess] = field(default_factory=dict)
    file_of: Mapping[str, Path] = field(default_factory=dict)
    white: tuple[AddressPattern, ...] = ()

    @classmethod
    def of(cls, files: Mapping[Path, AclFile]) -> PlainAclTable:
        accounts: dict[str, PlainAccess] = {}
        file_of: dict[str, Path] = {}
        for path, file in files.items():
            for config in file.accounts:
                if config.access_key not in accounts:
                    accounts[config.access_key], file_of[config.access_key] = plain_access(config), path
        white = [parse_addresses(text) for file in files.values() for text in file.white_addresses]
        return cls(files, accounts, file_of, tuple(white))

    def refusal(self, command: RemotingCommand, host: str) -> str:
        """Return why the request is refused, or nothing. Its sender's host is not white for all accounts."""
        access_key = command.ext_fields.get(ACCESS_KEY)
        if access_key is None:
            return "No accessKey is configured: the request is not signed"
        account = self.accounts.get(access_key)
        if account is None:
            return f"No acl config for {access_key}"
        if account.addresses.matches(host):
            return ""
        if not is_signed_with(account.secret_key, command):
            return f"Check signature failed for accessKey={access_key}"
        rights = needed_rights(command)
        if rights == [TRACE_RIGHT]:
            return ""
        if command.code in ADMIN_CODES and not account.admin:
            return f"Need admin permission for request code={command.code}, but accessKey={access_key} is not"
        if account.admin and not account.topics and not account.groups:
            return ""
        for right in rights:
            owned = owned_perm(account, right)
            if not right.perm & owned:  # DENY stands alone
                return (
                    f"No default permission for {right}: accessKey={access_key} needs {right.perm.name} on it"
                )
        return ""


def owned_perm(account: PlainAccess, right: Right) -> Perm:
    if right.is_group:
        return account.groups.get(right.name, account.default_group_perm)
    return account.topics.get(right.name, account.default_topic_perm)


class PlainPermissionManager:
    """The table in force, and its files under `<home>/conf`."""

    def __init__(self, home: Path, tables: TableWriter) -> None:
        self.default_file = home / "conf" / "plain_acl.yml"
        self._folder = home / "conf" / "acl"
        self._tables = tables
        self._writers: dict[Path, TableFile] = {}
        self._stamps: dict[Path, Stamp] = {}
        self._white_hosts: dict[str, bool] = {}
        self.table = PlainAclTable()
        self.error = ""  # why the files are not what is in force

    def load(self) -> None:
        """Read the files at the start. Raises AclFileError or OSError."""
        self._stamps = self._look_at_files()
        self._use(self._read(self._stamps))

    def look(self) -> None:
        """Read files that have changed; what cannot be used leaves the table as it is."""
        if any(writer.is_changed for writer in self._writers.values()):
            return
        stamps = self._look_at_files()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            table = self._read(stamps)
        except (AclFileError, OSError) as error:
            self.error = str(error)
            logger.error("access control: %s. The accounts read before stay in force", error)  # noqa: TRY400
            return
        self._use(table)
        logger.info(
            "access control: %d accounts of %d files are in force", len(table.accounts), len(table.files)
        )

    def _look_at_files(self) -> dict[Path, Stamp]:
        paths = [path for path in sorted(self._folder.rglob("*")) if path.suffix in SUFFIXES]
        stamps: dict[Path, Stamp] = {}
        for path in [*paths, self.default_file]:
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            stamps[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return stamps

    def _read(self, paths: Mapping[Path, Stamp]) -> PlainAclTable:
        table = PlainAclTable.of({path: read_acl_file(path) for path in paths})
        if not table.accounts and not table.white:
            raise AclFileError(
                f"aclEnable=true, but {self.default_file} and {self._folder} hold no account: write one with "
                "accessKey, secretKey and admin: true, or set aclEnable=false"
            )
        return table

    def _use(self, table: PlainAclTable) -> None:
        self.table = table
        self.error = ""
        self._white_hosts = {}
        for file in table.files.values():
            for warning in file.warnings:
                logger.warning("access control: %s", warning)
        for path, file in table.files.items():
            for config in file.accounts:
                if table.file_of[config.access_key] != path:
                    first = table.file_of[config.access_key]
                    logger.warning(
                        "access control: %s: accessKey %s stands in %s", path, config.access_key, first
                    )

    def check(self, command: RemotingCommand, host: str) -> None:
        """Raise NO_PERMISSION with the missing right for what the sender may not do."""
        if self.is_white(host):
            return
        refusal = self.table.refusal(command, host)
        if refusal:
            raise error_for(ResponseCode.NO_PERMISSION, refusal)

    def is_white(self, host: str) -> bool:
        """Return whether the host needs no account."""
        is_white = self._white_hosts.get(host)
        if is_white is None:
            if len(self._white_hosts) >= WHITE_HOSTS_MAX:
                self._white_hosts.clear()
            is_white = any(pattern.matches(host) for pattern in self.table.white)
            self._white_hosts[host] = is_white
        return is_white

    def config(self) -> AclConfig:
        """Return what all files hold; each access key once."""
        table = self.table
        return AclConfig(
            global_white_addrs=[text for file in table.files.values() for text in file.white_addresses],
            plain_access_configs=[
                config
                for path, file in table.files.items()
                for config in file.accounts
                if table.file_of[config.access_key] == path
            ],
        )

    def versions(self) -> dict[Path, DataVersion]:
        return {path: file.version for path, file in self.table.files.items()}

    def update(self, change: PlainAccessConfig, now_ms: int) -> None:
        """Make an account or change what is given of it. Raises ValueError that names what is wrong."""
        plain_access(change)
        if unknown := unknown_perms(change):
            raise ValueError(f"permission {unknown[0]!r} is none of {', '.join(PERMS)}")
        path = self.table.file_of.get(change.access_key, self.default_file)
        file = self.table.files.get(path, AclFile())
        others = [each for each in file.accounts if each.access_key != change.access_key]
        known = next((each for each in file.accounts if each.access_key == change.access_key), None)
        account = change if known is None else merged(known, change)
        self._put(path, replace(file, accounts=(*others, account)), now_ms)

    def delete(self, access_key: str, now_ms: int) -> None:
        """Raise ValueError for an account that does not exist, or the last one."""
        path = self.table.file_of.get(access_key)
        if path is None:
            raise ValueError(f"no account has accessKey={access_key}")
        file = self.table.files[path]
        left = tuple(each for each in file.accounts if each.access_key != access_key)
        self._put(path, replace(file, accounts=left), now_ms)

    def set_white_addresses(self, addresses: Sequence[str], path_text: str, now_ms: int) -> None:
        """Replace the white addresses of one file; "": the default file. Raises ValueError."""
        path = Path(path_text) if path_text else self.default_file
        if path != self.default_file and path not in self.table.files:
            raise ValueError(
                f"{path} is no account file of this broker: {', '.join(map(str, self.table.files))}"
            )
        for address in addresses:
            parse_addresses(address)
        file = self.table.files.get(path, AclFile())
        self._put(path, replace(file, white_addresses=tuple(addresses)), now_ms)

    def _put(self, path: Path, file: AclFile, now_ms: int) -> None:
        """Put a changed file in force; it is written with the next tables."""
        version = DataVersion(timestamp=now_ms, counter=file.version.counter + 1)
        table = PlainAclTable.of({**self.table.files, path: replace(file, version=version, warnings=())})
        if not table.accounts and not table.white:
            raise ValueError(
                "this would leave no account and no white address: every request would be refused"
            )
        self._use(table)
        self._writer(path).changed()

    def _writer(self, path: Path) -> TableFile:
        writer = self._writers.get(path)
        if writer is None:
            writer = self._writers[path] = TableFile(path, lambda: self._document(path), is_private=True)
            self._tables.add(writer)
        return writer

    def _document(self, path: Path) -> Iterator[bytes]:
        return iter([acl_file_text(self.table.files[path]).encode()])


def merged(known: PlainAccessConfig, change: PlainAccessConfig) -> PlainAccessConfig:
    """Return the account after a change; what the change does not name stays."""
    given = {
        name: value
        for name, value in dataclasses.asdict(change).items()
        if value is not None and (value != "" or name == "white_remote_address")
    }
    return replace(known, **given)
