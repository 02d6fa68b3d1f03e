"""Each handled request code has a header class that its handler reads, and a capture or a test with a real peer."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from brokerd.config import NamesrvConfig, NamesrvProcessConfig
from brokerd.namesrv.kv_config import KvConfigManager
from brokerd.namesrv.route_info import RouteInfoManager
from brokerd.processor.broker import Broker, NameServer
from brokerd.processor.dispatch import Dispatcher
from brokerd.processor.handlers import BROKER_HANDLERS, NAMESRV_HANDLERS
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.header import acl, broker, client, group, headers, offset, route, topic
from brokerd.remoting.header.fields import HeaderFields, fields_of
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.remoting.golden_frames import golden_frames
from tests.brokerd.running import running

TESTS = Path(__file__).parents[2]
HEADERS: Mapping[RequestCode, type[HeaderFields]] = {
    RequestCode.SEND_MESSAGE: headers.SendMessageRequestHeader,
    RequestCode.SEND_MESSAGE_V2: headers.SendMessageRequestHeaderV2,
    RequestCode.SEND_BATCH_MESSAGE: headers.SendMessageRequestHeaderV2,
    RequestCode.SEND_REPLY_MESSAGE: headers.SendMessageRequestHeader,
    RequestCode.SEND_REPLY_MESSAGE_V2: headers.SendMessageRequestHeaderV2,
    RequestCode.CONSUMER_SEND_MSG_BACK: headers.ConsumerSendMsgBackRequestHeader,
    RequestCode.END_TRANSACTION: headers.EndTransactionRequestHeader,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: headers.ResumeCheckHalfMessageRequestHeader,
    RequestCode.RECALL_MESSAGE: headers.RecallMessageRequestHeader,
    RequestCode.PULL_MESSAGE: headers.PullMessageRequestHeader,
    RequestCode.LITE_PULL_MESSAGE: headers.PullMessageRequestHeader,
    RequestCode.POP_MESSAGE: headers.PopMessageRequestHeader,
    RequestCode.ACK_MESSAGE: headers.AckMessageRequestHeader,
    RequestCode.PEEK_MESSAGE: headers.PeekMessageRequestHeader,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: headers.ChangeInvisibleTimeRequestHeader,
    RequestCode.NOTIFICATION: headers.PollRequestHeader,
    RequestCode.POLLING_INFO: headers.PollRequestHeader,
    RequestCode.QUERY_MESSAGE: broker.QueryMessageRequestHeader,
    RequestCode.VIEW_MESSAGE_BY_ID: broker.ViewMessageRequestHeader,
    RequestCode.QUERY_CONSUME_QUEUE: broker.QueryConsumeQueueRequestHeader,
    RequestCode.VIEW_BROKER_STATS_DATA: broker.ViewBrokerStatsRequestHeader,
    RequestCode.GET_CONSUMER_RUNNING_INFO: broker.GetConsumerRunningInfoRequestHeader,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: broker.ConsumeMessageDirectlyRequestHeader,
    RequestCode.UNREGISTER_CLIENT: client.UnregisterClientRequestHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: offset.QueryConsumerOffsetRequestHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: offset.UpdateConsumerOffsetRequestHeader,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: offset.ResetOffsetRequestHeader,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offset.GetConsumerStatusRequestHeader,
    RequestCode.GET_CONSUME_STATS: offset.GetConsumeStatsRequestHeader,
    RequestCode.GET_BROKER_CONSUME_STATS: offset.GetBrokerConsumeStatsRequestHeader,
    RequestCode.CLONE_GROUP_OFFSET: offset.CloneGroupOffsetRequestHeader,
    RequestCode.QUERY_CORRECTION_OFFSET: offset.QueryCorrectionOffsetRequestHeader,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: group.ConsumerGroupRequestHeader,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: group.ConsumerGroupRequestHeader,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: group.ProducerGroupRequestHeader,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: group.DeleteGroupRequestHeader,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: group.GroupRequestHeader,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: group.GroupRequestHeader,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: group.GroupForbiddenRequestHeader,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: group.QuerySubscriptionRequestHeader,
    RequestCode.QUERY_CONSUME_TIME_SPAN: group.ConsumeTimeSpanRequestHeader,
    RequestCode.UPDATE_AND_CREATE_TOPIC: topic.CreateTopicRequestHeader,
    RequestCode.GET_TOPIC_STATS_INFO: topic.TopicRequestHeader,
    RequestCode.DELETE_TOPIC_IN_BROKER: topic.TopicRequestHeader,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: topic.TopicRequestHeader,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: topic.TopicRequestHeader,
    RequestCode.GET_TOPIC_CONFIG: topic.TopicRequestHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: topic.SearchOffsetRequestHeader,
    RequestCode.GET_MAX_OFFSET: topic.QueueRequestHeader,
    RequestCode.GET_MIN_OFFSET: topic.QueueRequestHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: topic.QueueRequestHeader,
    RequestCode.PUT_KV_CONFIG: route.PutKVConfigRequestHeader,
    RequestCode.GET_KV_CONFIG: route.KVConfigRequestHeader,
    RequestCode.DELETE_KV_CONFIG: route.KVConfigRequestHeader,
    RequestCode.GET_KVLIST_BY_NAMESPACE: route.GetKVListRequestHeader,
    RequestCode.REGISTER_BROKER: route.RegisterBrokerRequestHeader,
    RequestCode.UNREGISTER_BROKER: route.BrokerRequestHeader,
    RequestCode.QUERY_DATA_VERSION: route.BrokerRequestHeader,
    RequestCode.BROKER_HEARTBEAT: route.BrokerRequestHeader,
    RequestCode.GET_BROKER_MEMBER_GROUP: route.GetBrokerMemberGroupRequestHeader,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: route.GetRouteInfoRequestHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: route.BrokerNameRequestHeader,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: route.BrokerNameRequestHeader,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: route.DeleteTopicRequestHeader,
    RequestCode.GET_TOPICS_BY_CLUSTER: route.GetTopicsByClusterRequestHeader,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: acl.UpdateAccountRequestHeader,
    RequestCode.DELETE_ACL_CONFIG: acl.DeleteAccountRequestHeader,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: acl.UpdateWhiteAddressesRequestHeader,
    RequestCode.AUTH_CREATE_USER: acl.UserRequestHeader,
    RequestCode.AUTH_UPDATE_USER: acl.UserRequestHeader,
    RequestCode.AUTH_DELETE_USER: acl.UserRequestHeader,
    RequestCode.AUTH_GET_USER: acl.UserRequestHeader,
    RequestCode.AUTH_LIST_USER: acl.ListUsersRequestHeader,
    RequestCode.AUTH_CREATE_ACL: acl.AclRequestHeader,
    RequestCode.AUTH_UPDATE_ACL: acl.AclRequestHeader,
    RequestCode.AUTH_DELETE_ACL: acl.AclRequestHeader,
    RequestCode.AUTH_GET_ACL: acl.AclRequestHeader,
    RequestCode.AUTH_LIST_ACL: acl.ListAclsRequestHeader,
}
HANDLED = sorted({RequestCode(code) for code in (*BROKER_HANDLERS, *NAMESRV_HANDLERS)})
# Everything is in the body, or there is nothing to say.
WITHOUT_FIELDS = set(HANDLED) - set(HEADERS)
# Codes without a capture → the test in which an official client or tool sends them, and how it is named there.
SENT_IN = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ("support/mqadmin_commands.py", "updateAclConfig"),
    RequestCode.DELETE_ACL_CONFIG: ("support/mqadmin_commands.py", "deleteAclConfig"),
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ("support/mqadmin_commands.py", "updateGlobalWhiteAddr"),
    RequestCode.POP_ROLLBACK: ("support/mqadmin_commands.py", "exportPopRecord"),
    # Ours: no other program has them.
    RequestCode.TIDEMARK_PUT_ASSIGNMENT: ("consumers/test_with_brokerd_admin.py", "put_assignment"),
    RequestCode.TIDEMARK_GET_CAPABILITIES: ("consumers/test_with_brokerd_admin.py", "capabilities"),
}
# Fields that any request may carry and no header class names (protocol section 1.9).
COMMON_FIELDS = {"AccessKey", "Signature", "SecurityToken", "ReqT"}
# Captured on purpose with a field missing or wrong (tests/golden/wire manifests: description).
INVALID = {
    "4.9.7/10-send_message-12.request.bin": "queueId",
    "5.3.3/10-send_message-12.request.bin": "queueId",
}
SAMPLE = {"str": "x", "int": "1", "bool": "true"}


@pytest.fixture(scope="module")
def captured() -> set[int]:
    return {frame.code for frame in golden_frames() if frame.is_request}


@pytest.mark.parametrize("code", HANDLED, ids=lambda code: code.name.lower())
def test_each_handled_code_is_captured_or_sent_by_a_peer(code: RequestCode, captured: set[int]) -> None:
    if code in captured:
        assert code not in SENT_IN
        return
    file, word = SENT_IN[code]
    assert word in (TESTS / file).read_text("utf-8")


def test_each_row_of_the_tables_is_of_a_handled_code() -> None:
    assert set(SENT_IN) <= set(HANDLED)
    assert set(HEADERS) <= set(HANDLED)


def test_header_classes_have_every_field_of_captured_requests() -> None:
    refused = {}
    for frame in golden_frames():
        if not frame.is_request or frame.code not in HANDLED:
            continue
        fields = frame.command().ext_fields
        own = {key: value for key, value in fields.items() if key not in COMMON_FIELDS}
        if frame.code in WITHOUT_FIELDS:
            assert own == {}, frame.name
            continue
        try:
            header = HEADERS[RequestCode(frame.code)].from_ext_fields(fields)
        except HeaderFieldError as error:
            refused[frame.name] = error.field
        else:
            assert own.items() <= header.to_ext_fields().items(), frame.name
    assert refused == INVALID


def sample_fields(header: type[HeaderFields]) -> dict[str, str]:
    kinds = {field.name: str(field.type).partition(" ")[0] for field in dataclasses.fields(header)}  # type: ignore[arg-type]
    return {field.wire: SAMPLE[kinds[field.attribute]] for field in fields_of(header)}


async def test_each_handler_reads_the_header_class_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[type[HeaderFields]] = set()
    from_ext_fields = HeaderFields.from_ext_fields.__func__  # type: ignore[attr-defined]

    def recorded(cls: type[HeaderFields], fields: Mapping[str, str]) -> HeaderFields:
        read.add(cls)
        header: HeaderFields = from_ext_fields(cls, fields)
        return header

    monkeypatch.setattr(HeaderFields, "from_ext_fields", classmethod(recorded))
    wrong = {}
    async with running(tmp_path) as started:
        namesrv = NameServer(
            NamesrvConfig(),
            RouteInfoManager(),
            KvConfigManager(tmp_path / "kvConfig.json"),
            started.broker.tables,
            NamesrvProcessConfig(),
            lambda changes: None,
        )
        to_broker: Dispatcher[Broker] = Dispatcher(started.broker, BROKER_HANDLERS)
        to_namesrv: Dispatcher[NameServer] = Dispatcher(namesrv, NAMESRV_HANDLERS)
        for code in HANDLED:
            read.clear()
            expected = {HEADERS[code]} if code in HEADERS else set()
            fields = sample_fields(HEADERS[code]) if code in HEADERS else {}
            handle = to_broker.handle if code in BROKER_HANDLERS else to_namesrv.handle
            handle(RemotingCommand.request(code, fields), MemoryChannel(), 1)
            if read != expected:
                wrong[code.name] = read.copy()
        await asyncio.sleep(0)
    assert wrong == {}
