"""A cluster on a real brokerd and a person who may change topics and groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User

from console.access import services as access_services
from console.brokers.mqadmin import close_admins
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    yield LiveCluster(brokerd).register()
    close_admins()


@pytest.fixture
def admin(db: None) -> User:
    return access_services.ensure_first_person()
