"""Owns the consumer groups' settings: retries, permissions, topics a group may not read; saved as
config/subscriptionGroup.json.

Source: semantics §1.9, protocol §3.12 (`SubscriptionGroupManager.java`).
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

from brokerd import config_manager
from brokerd.config import LiveConfig
from brokerd.remoting.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.remoting.codes import READ_REFUSED
from brokerd.remoting.message import is_system_group, validate_group
from brokerd.remoting.message_names import SYSTEM_GROUPS

logger = logging.getLogger(__name__)

GROUPS_MAX = 100_000  # auto-creation must not let a client with random names fill memory and disk
FORBIDDEN_MAX = 100_000  # (group, topic) pairs; nor may requests with random names

Forbidden = dict[str, dict[str, int]]  # group → topic → bits


class SubscriptionGroupManager:
    """The group table. Single-threaded: the broker's event loop."""

    def __init__(self, path: Path, config: LiveConfig, now_ms: int) -> None:
        self._path = path
        self._config = config
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        self.forbidden: Forbidden = {}
        self.data_version = DataVersion(timestamp=now_ms, counter=0)
        loaded = config_manager.load(path, SubscriptionGroupWrapper.from_body)
        if loaded is not None:
            self.groups.update(loaded.subscription_group_table)
            self.forbidden.update(loaded.forbidden_table)
            self.data_version = loaded.data_version
        for name in sorted(SYSTEM_GROUPS):  # protocol §3.12
            self.groups.setdefault(name, SubscriptionGroupConfig(group_name=name))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self.groups.get(group)

    def find_or_create(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """The group's settings, made on first use when that is allowed and the name is valid; else None."""
        config = self.groups.get(group)
        if config is not None:
            return config
        if not (self._config.broker.auto_create_subscription_group or is_system_group(group)):
            return None
        if len(self.groups) >= GROUPS_MAX:
            logger.warning("group not created group=%s: %d groups exist already", group, GROUPS_MAX)
            return None
        try:
            validate_group(group)
        except ValueError as error:
            logger.warning("group not created group=%r: %s", group, error)
            return None
        logger.info("group created group=%s", group)
        return self.put(SubscriptionGroupConfig(group_name=group), now_ms)

    def put(self, config: SubscriptionGroupConfig, now_ms: int) -> SubscriptionGroupConfig:
        """Store new or changed settings and save. Raises OSError, and changes nothing, when it cannot be saved."""
        self._save({**self.groups, config.group_name: config}, self.forbidden, now_ms)
        return config

    def delete(self, group: str, now_ms: int) -> bool:
        """False when there is no such group. What it might not read is forgotten. Raises OSError as put."""
        if group not in self.groups and group not in self.forbidden:
            return False
        groups = {name: config for name, config in self.groups.items() if name != group}
        is_known = len(groups) < len(self.groups)
        self._save(groups, {name: bits for name, bits in self.forbidden.items() if name != group}, now_ms)
        logger.info("group deleted group=%s", group)
        return is_known

    def is_read_forbidden(self, group: str, topic: str) -> bool:
        """Whether pulls of the group from this topic are refused. Asked for every pull."""
        topics = self.forbidden.get(group)
        return topics is not None and bool(max(0, topics.get(topic, 0)) & READ_REFUSED)

    def set_readable(self, group: str, topic: str, readable: bool, now_ms: int) -> None:
        """Forbid or allow a group to read a topic; other topics of the group stay as they are, and both ways are saved.

        Raises OverflowError beyond FORBIDDEN_MAX pairs, OSError as put; nothing is changed then.
        """
        if readable != self.is_read_forbidden(group, topic):
            return
        bits = self.forbidden.get(group, {})
        value = max(0, bits.get(topic, 0)) ^ READ_REFUSED
        if not readable and sum(map(len, self.forbidden.values())) >= FORBIDDEN_MAX:
            raise OverflowError(f"{FORBIDDEN_MAX} topics of groups are forbidden already")
        kept = {name: each for name, each in {**bits, topic: value}.items() if each > 0}
        others = {name: each for name, each in self.forbidden.items() if name != group}
        self._save(self.groups, {**others, group: kept} if kept else others, now_ms)
        logger.info("reading %s group=%s topic=%s", "allowed" if readable else "forbidden", group, topic)

    def _save(self, groups: dict[str, SubscriptionGroupConfig], forbidden: Forbidden, now_ms: int) -> None:
        before, version = (self.groups, self.forbidden), self.data_version
        self.groups, self.forbidden = groups, forbidden
        self.data_version = dataclasses.replace(version, timestamp=now_ms, counter=version.counter + 1)
        try:
            self.persist()
        except (OSError, TypeError, ValueError, OverflowError):  # the disk's, or a number JSON cannot hold
            (self.groups, self.forbidden), self.data_version = before, version
            raise

    def wrapper(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            data_version=self.data_version,
            subscription_group_table=dict(self.groups),
            forbidden_table=self.forbidden,
        )

    def persist(self) -> None:
        config_manager.write_atomically(self._path, config_manager.indented(self.wrapper().to_body()))
