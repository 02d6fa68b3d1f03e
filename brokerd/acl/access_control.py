"""Who may do what: one check for both generations of access control, and what the broker reports of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from brokerd.acl.auth_manager import AuthManager
from brokerd.config import AclConfig
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError
from brokerd.tables.table_file import TableWriter

if TYPE_CHECKING:
    from brokerd.acl.plain_permission import PlainPermissionManager

logger = logging.getLogger(__name__)

LOGGED_MAX = 1_000  # different refusals a minute that are logged


class AccessControl:
    """4.x's accounts where aclEnable is set, else 5.x's users and policies."""

    def __init__(self, config: AclConfig, folder: Path, cluster: str, tables: TableWriter) -> None:
        """Read the tables. Raises ConfigError, TableUnreadable or OSError."""
        self.plain: PlainPermissionManager | None = None
        self.auth = AuthManager(folder, config, cluster)
        self.is_on = config.acl_enable or config.authentication_enabled
        self._logged: set[tuple[str, str]] = set()
        if config.acl_enable:
            # YAML is a twentieth of a second of the start, which others need not wait.
            from brokerd.acl.plain_permission import PlainPermissionManager

            self.plain = PlainPermissionManager(Path(config.rocketmq_home).expanduser(), tables)
            self.plain.load()
        self.auth.make_first_users()
        tables.add(self.auth.users_file)
        tables.add(self.auth.acls_file)

    @property
    def error(self) -> str:
        """Why the accounts in force are not those of the files."""
        return self.plain.error if self.plain is not None else ""

    def is_white(self, host: str) -> bool:
        """Return whether no request of the host is checked."""
        return self.plain is not None and self.plain.is_white(host)

    def check(self, command: RemotingCommand, host: str) -> None:
        """Raise NO_PERMISSION for what the sender may not do."""
        try:
            (self.plain or self.auth).check(command, host)
        except MQBrokerError as error:
            refusal = (host, error.remark)
            if refusal not in self._logged and len(self._logged) < LOGGED_MAX:
                self._logged.add(refusal)
                logger.warning("request denied code=%d host=%s: %s", command.code, host, error.remark)
            raise

    def look(self) -> None:
        """Read account files that have changed."""
        if self.plain is not None:
            self.plain.look()

    def log_anew(self) -> None:
        """Log refusals again that were logged before."""
        self._logged.clear()
