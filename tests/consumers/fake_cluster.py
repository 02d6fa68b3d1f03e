"""A FakeBroker that answers what a client instance needs to begin: routes, heartbeats, member lists."""

from __future__ import annotations

from brokerd.remoting.body.client import ConsumerListBody
from brokerd.remoting.body.route import BrokerData, QueueData, TopicRouteData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from tests.consumers.fake_broker import FakeBroker


def route_to(addr: str, *, queues: int = 4, broker_name: str = "broker-a", perm: int = 6) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[BrokerData(cluster="c", broker_name=broker_name, broker_addrs={0: addr})],
        queue_datas=[
            QueueData(
                broker_name=broker_name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm,
                topic_sys_flag=0,
            )
        ],
    )


class FakeCluster:
    """`routes` and `client_ids` may be changed while a test runs."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.routes: dict[str, TopicRouteData] = {}
        self.client_ids: list[str] = []
        self.offsets: dict[tuple[str, int], int] = {}
        broker.answers |= {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.HEART_BEAT: lambda command: command.response(0),
            RequestCode.UNREGISTER_CLIENT: lambda command: command.response(0),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.GET_MAX_OFFSET: lambda command: command.response(0, ext_fields={"offset": "100"}),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda command: command.response(
                0, ext_fields={"offset": command.ext_fields["timestamp"]}
            ),
        }

    def _route(self, command: RemotingCommand) -> RemotingCommand:
        route = self.routes.get(command.ext_fields["topic"])
        if route is None:
            return command.response(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server")
        return command.response(0, body=route.to_body())

    def _members(self, command: RemotingCommand) -> RemotingCommand:
        if not self.client_ids:
            return command.response(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
        return command.response(0, body=ConsumerListBody(consumer_id_list=self.client_ids).to_body())

    def _query_offset(self, command: RemotingCommand) -> RemotingCommand:
        offset = self.offsets.get((command.ext_fields["topic"], int(command.ext_fields["queueId"])))
        if offset is None:
            return command.response(ResponseCode.QUERY_NOT_FOUND, "Not found")
        return command.response(0, ext_fields={"offset": str(offset)})

    def _update_offset(self, command: RemotingCommand) -> RemotingCommand:
        key = command.ext_fields["topic"], int(command.ext_fields["queueId"])
        self.offsets[key] = int(command.ext_fields["commitOffset"])
        return command.response(0)
