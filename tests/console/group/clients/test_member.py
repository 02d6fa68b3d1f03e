"""A member asked directly, through a real brokerd."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from console.group.clients import member
from tests.console.operation.live_cluster import LiveCluster, wait_for

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def test_it_tells_what_a_member_holds(live: LiveCluster, alice: User) -> None:
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    live.send("orders", 0, [b"x"] * 3)
    with live.member("billing", "orders") as seen:
        wait_for(lambda: len(seen) == 3)
        connection = live.admin.consumer_connection(live.addr, "billing")
        assert connection is not None
        (client,) = connection.connection_set
        info = member.running_info(live.admin, "billing", client.client_id, with_stack=True)
        places = {(each.topic, each.queue_id) for each in info.queues}
        assert {("orders", 0), ("orders", 1)} <= places
        assert dict(info.properties)["PROP_CLIENT_VERSION"]
        assert info.stack is not None and "consumers.consumer.pull_message.PullLoop.run(" in info.stack
    with pytest.raises(member.MemberSilent, match="No broker has a connection of"):
        member.running_info(live.admin, "billing", "nobody@1", with_stack=False)
