"""Owns the tables request code → handler: one for the broker, one for the name server."""

from __future__ import annotations

from brokerd.processor import (
    admin_group,
    admin_offset,
    admin_runtime,
    admin_topic,
    client_manage,
    consumer_manage,
    pull_message,
    query_assignment,
    query_message,
    route,
    send_back,
    send_message,
    unsupported,
)
from brokerd.processor.broker import BrokerHandler, NamesrvHandler

BROKER_HANDLERS: dict[int, BrokerHandler] = {
    **unsupported.HANDLERS,
    **send_message.HANDLERS,
    **send_back.HANDLERS,
    **pull_message.HANDLERS,
    **query_message.HANDLERS,
    **client_manage.HANDLERS,
    **consumer_manage.HANDLERS,
    **query_assignment.HANDLERS,
    **admin_topic.HANDLERS,
    **admin_group.HANDLERS,
    **admin_offset.HANDLERS,
    **admin_runtime.HANDLERS,
}

NAMESRV_HANDLERS: dict[int, NamesrvHandler] = dict(route.HANDLERS)
