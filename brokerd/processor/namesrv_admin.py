"""The name server's administration: its settings, topics registered by hand, topics by the marks of units.

Source: protocol §5.1 (`DefaultRequestProcessor.java`, `RouteInfoManager.java`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from brokerd.config import (
    NAMESRV_HOT_KEYS,
    ConfigError,
    NamesrvConfig,
    keys_of,
    read_changes,
    replaced,
    to_properties,
)
from brokerd.connections.channel import Channel
from brokerd.processor.broker import NameServer, NamesrvHandler, Saved
from brokerd.processor.route import refuse_lists_when_disabled, topic_list
from brokerd.remoting.body.route import QueueData, TopicRouteData
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.topic import TopicRequestHeader

logger = logging.getLogger(__name__)

UNIT, UNIT_SUB = 1, 2  # bits of a topic's system flags (TopicSysFlag)
OWN_PORT = "namesrvListenPort"  # of listenPort, in the file of a broker that is a name server too


def shown_config(server: NameServer) -> dict[str, str]:
    """Return the settings under Java's names (NamesrvConfig, NettyServerConfig)."""
    shown = to_properties(server.config, server.process)
    del shown[OWN_PORT]
    return shown


def get_namesrv_config(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_NAMESRV_CONFIG (319)."""
    text = "".join(f"{key}={value}\n" for key, value in sorted(shown_config(server).items()))
    return command.response(ResponseCode.SUCCESS, body=text.encode())


def update_namesrv_config(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> Saved:
    """UPDATE_NAMESRV_CONFIG (318): all of the named settings or none."""
    known = frozenset({*shown_config(server), *keys_of(NamesrvConfig)})
    try:
        properties = read_changes(command.body, NAMESRV_HOT_KEYS, known, "a name server (318)")
        changed = replaced(server.config, properties)
    except ConfigError as error:
        raise error_for(ResponseCode.INVALID_PARAMETER, str(error)) from error
    server.change_properties(properties)
    server.config = changed
    logger.info("settings of the name server changed properties=%s", properties)
    return Saved(command.response(ResponseCode.SUCCESS))


def register_topic(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """REGISTER_TOPIC_IN_NAMESRV (217): nothing, as in Java, where a broker is named that is not registered."""
    topic = TopicRequestHeader.from_ext_fields(command.ext_fields).topic
    queue_datas = TopicRouteData.from_request(command.body).queue_datas
    if all(data.broker_name in server.routes.brokers for data in queue_datas):
        for data in queue_datas:
            server.routes.put_topic(
                data.broker_name,
                TopicConfig(
                    topic_name=topic,
                    read_queue_nums=data.read_queue_nums,
                    write_queue_nums=data.write_queue_nums,
                    perm=data.perm,
                    topic_sys_flag=data.topic_sys_flag,
                ),
            )
    else:
        logger.warning("topic not registered topic=%s: of unknown brokers %s", topic, queue_datas)
    return command.response(ResponseCode.SUCCESS)


def topics_by_flag(matches: Callable[[int], bool]) -> NamesrvHandler:
    """Return a handler for the topics whose system flags match; the first broker's count, as in Java."""

    def answer(
        server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
    ) -> RemotingCommand:
        refuse_lists_when_disabled(server)
        queues_of = server.routes.queues_of.items()
        return topic_list(command, [topic for topic, queues in queues_of if matches(flag_of(queues))])

    return answer


def flag_of(queues: dict[str, QueueData]) -> int:
    return next(iter(queues.values())).topic_sys_flag


HANDLERS: dict[int, NamesrvHandler] = {
    RequestCode.GET_NAMESRV_CONFIG: get_namesrv_config,
    RequestCode.UPDATE_NAMESRV_CONFIG: update_namesrv_config,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: register_topic,
    RequestCode.GET_UNIT_TOPIC_LIST: topics_by_flag(lambda flag: flag & UNIT != 0),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: topics_by_flag(lambda flag: flag & UNIT_SUB != 0),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: topics_by_flag(
        lambda flag: flag & UNIT == 0 and flag & UNIT_SUB != 0
    ),
}
