"""The consumer groups' settings: retries, permissions, topics a group may not read; config/subscriptionGroup.json.

Source: semantics §1.9, protocol §3.12 (`SubscriptionGroupManager.java`). A change is in force at once and written
soon after (table_file); an administrator's answer waits for that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import orjson

from brokerd.config import LiveConfig
from brokerd.remoting.body.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.remoting.body.topic import DataVersion
from brokerd.remoting.codes import READ_REFUSED
from brokerd.remoting.message.names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS, is_light, validate_group
from brokerd.tables import config_manager
from brokerd.tables.table_file import EntryTexts, TableFile

logger = logging.getLogger(__name__)

GROUPS_MAX = 100_000  # auto-creation must not let a client with random names fill memory and disk
FORBIDDEN_MAX = 100_000  # (group, topic) pairs; nor may requests with random names

Forbidden = dict[str, dict[str, int]]  # group → topic → bits


class SubscriptionGroupManager:
    """The group table. Single-threaded: the broker's event loop."""

    def __init__(
        self, path: Path, config: LiveConfig, now_ms: int, *, has_light_queues: bool = False
    ) -> None:
        self._config = config
        self._has_light_queues = has_light_queues
        self._texts = EntryTexts()
        self.file = TableFile(path, self._document)
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
        for name, group in self.groups.items():
            self._texts.put(name, EntryTexts.encode(name, group))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """A group of light queues has default settings that no table holds."""
        config = self.groups.get(group)
        if config is None and self._has_light_queues and is_light(group):
            return SubscriptionGroupConfig(group_name=group)
        return config

    def find_or_create(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """Return the group's settings, made on first use when that is allowed and the name is valid; else None."""
        config = self.get(group)
        if config is not None:
            return config
        if not (self._config.broker.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)):
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
        """Store new or changed settings. Raises TypeError, and changes nothing, for what JSON cannot hold."""
        text = EntryTexts.encode(config.group_name, config)
        self.groups[config.group_name] = config
        self._texts.put(config.group_name, text)
        self._changed(now_ms)
        return config

    def delete(self, group: str, now_ms: int) -> bool:
        """Delete a group and its refusals; False when it does not exist."""
        if group not in self.groups and group not in self.forbidden:
            return False
        is_known = self.groups.pop(group, None) is not None
        self._texts.remove(group)
        self.forbidden.pop(group, None)
        self._changed(now_ms)
        logger.info("group deleted group=%s", group)
        return is_known

    def is_read_forbidden(self, group: str, topic: str) -> bool:
        """Return whether pulls of the group from this topic are refused. Called for every pull."""
        topics = self.forbidden.get(group)
        return topics is not None and bool(max(0, topics.get(topic, 0)) & READ_REFUSED)

    def set_readable(self, group: str, topic: str, readable: bool, now_ms: int) -> None:
        """Forbid or allow a group to read a topic; other topics of the group stay as they are, and both ways are saved.

        Raises OverflowError beyond FORBIDDEN_MAX pairs; nothing is changed then.
        """
        if readable != self.is_read_forbidden(group, topic):
            return
        bits = self.forbidden.get(group, {})
        value = max(0, bits.get(topic, 0)) ^ READ_REFUSED
        if not readable and sum(map(len, self.forbidden.values())) >= FORBIDDEN_MAX:
            raise OverflowError(f"{FORBIDDEN_MAX} topics of groups are forbidden already")
        kept = {name: each for name, each in {**bits, topic: value}.items() if each > 0}
        self.forbidden.pop(group, None)
        if kept:
            self.forbidden[group] = kept
        self._changed(now_ms)
        logger.info("reading %s group=%s topic=%s", "allowed" if readable else "forbidden", group, topic)

    def follow(self, master: SubscriptionGroupWrapper) -> None:
        """Take over a master's table, on its slave. Raises TypeError, and changes nothing: JSON cannot hold it."""
        if master.data_version == self.data_version:
            return
        texts = {
            name: EntryTexts.encode(name, group) for name, group in master.subscription_group_table.items()
        }
        for name in self.groups.keys() - texts.keys() - SYSTEM_GROUPS:
            del self.groups[name]
            self._texts.remove(name)
        self.groups.update(master.subscription_group_table)
        for name, text in texts.items():
            self._texts.put(name, text)
        self.forbidden = dict(master.forbidden_table)
        self.data_version = master.data_version
        self.file.changed()

    def _changed(self, now_ms: int) -> None:
        version = self.data_version
        self.data_version = DataVersion(now_ms, version.counter + 1, version.state_version)
        self.file.changed()

    def body(self) -> bytes:
        """Return the answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        return b'{"dataVersion":%b,"forbiddenTable":%b,"subscriptionGroupTable":{%b}}' % (
            self.data_version.to_body(),
            orjson.dumps(self.forbidden),
            self._texts.joined(),
        )

    def _document(self) -> Iterator[bytes]:
        version, forbidden = self.data_version.to_body(), orjson.dumps(self.forbidden)
        entries = self._texts.pieces()

        def pieces() -> Iterator[bytes]:
            yield b'{\n"dataVersion":%b,\n"forbiddenTable":%b,\n"subscriptionGroupTable":{\n' % (
                version,
                forbidden,
            )
            yield from entries
            yield b"\n}\n}\n"

        return pieces()
