from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.config import BrokerConfig, LiveConfig, NamesrvConfig
from brokerd.remoting.body.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.tables import subscription_group
from brokerd.tables.subscription_group import SubscriptionGroupManager


def table(root: Path, **settings: bool) -> SubscriptionGroupManager:
    config = LiveConfig(BrokerConfig(**settings), NamesrvConfig())  # type: ignore[arg-type]
    return SubscriptionGroupManager(root / "subscriptionGroup.json", config, 1)


def test_it_makes_groups_at_their_first_use(tmp_path: Path) -> None:
    groups = table(tmp_path)
    made = groups.find_or_create("billing", 2)
    assert (made and made.group_name, groups.data_version.counter) == ("billing", 1)
    assert groups.find_or_create("no group!", 3) is None
    assert "billing" in SubscriptionGroupWrapper.from_body(groups.body()).subscription_group_table


def test_it_makes_none_where_that_is_off(tmp_path: Path) -> None:
    groups = table(tmp_path, auto_create_subscription_group=False)
    assert groups.find_or_create("billing", 2) is None
    assert groups.find_or_create("CID_RMQ_SYS_x", 2) is not None


def test_it_forbids_a_group_to_read_a_topic(tmp_path: Path) -> None:
    groups = table(tmp_path)
    groups.put(SubscriptionGroupConfig(group_name="g"), 1)
    groups.set_readable("g", "T", False, 2)
    groups.set_readable("g", "U", False, 3)
    groups.set_readable("g", "T", True, 4)
    assert (groups.is_read_forbidden("g", "T"), groups.is_read_forbidden("g", "U")) == (False, True)
    assert (groups.delete("g", 5), groups.forbidden, groups.delete("g", 6)) == (True, {}, False)


def test_it_holds_a_limited_number_of_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_group, "FORBIDDEN_MAX", 1)
    groups = table(tmp_path)
    groups.set_readable("g", "T", False, 2)
    with pytest.raises(OverflowError, match="1 topics of groups"):
        groups.set_readable("g", "U", False, 3)
    assert groups.forbidden == {"g": {"T": groups.forbidden["g"]["T"]}}
