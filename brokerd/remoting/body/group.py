"""Bodies about consumer groups: settings, refusals, lists of them (protocol section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.body.topic import DataVersion


@dataclass(slots=True)
class SubscriptionGroupConfig(JsonBody):
    """A group's settings; `retry_max_times` redeliveries, then the dead-letter topic."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SubscriptionGroupWrapper(JsonBody):
    """201 and config/subscriptionGroup.json."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class GroupForbidden(JsonBody):
    """353 (5.x): whether the group may read the topic here."""

    topic: str = ""
    group: str = ""
    readable: bool = True


@dataclass(slots=True)
class SubscriptionGroupList(JsonBody):
    """225."""

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


@dataclass(slots=True)
class GroupList(JsonBody):
    """300."""

    group_list: list[str] = field(default_factory=list)
