"""The tables of handlers by request code: one for the broker, one for the name server."""

from __future__ import annotations

from brokerd.processor import namesrv_admin, query_message, route
from brokerd.processor.admin import acl as admin_acl
from brokerd.processor.admin import auth as admin_auth
from brokerd.processor.admin import group as admin_group
from brokerd.processor.admin import offset as admin_offset
from brokerd.processor.admin import runtime as admin_runtime
from brokerd.processor.admin import store as admin_store
from brokerd.processor.admin import topic as admin_topic
from brokerd.processor.broker import BrokerHandler, NamesrvHandler
from brokerd.processor.client import client_manage
from brokerd.processor.consumer import (
    consumer_manage,
    pop_ack,
    pop_message,
    pop_notice,
    pull_message,
    query_assignment,
)
from brokerd.processor.send import end_transaction, recall_message, reply_message, send_back, send_message

BROKER_HANDLERS: dict[int, BrokerHandler] = {
    **send_message.HANDLERS,
    **send_back.HANDLERS,
    **end_transaction.HANDLERS,
    **recall_message.HANDLERS,
    **reply_message.HANDLERS,
    **pull_message.HANDLERS,
    **pop_message.HANDLERS,
    **pop_ack.HANDLERS,
    **pop_notice.HANDLERS,
    **query_message.HANDLERS,
    **client_manage.HANDLERS,
    **consumer_manage.HANDLERS,
    **query_assignment.HANDLERS,
    **admin_topic.HANDLERS,
    **admin_group.HANDLERS,
    **admin_offset.HANDLERS,
    **admin_runtime.HANDLERS,
    **admin_store.HANDLERS,
    **admin_acl.HANDLERS,
    **admin_auth.HANDLERS,
}

NAMESRV_HANDLERS: dict[int, NamesrvHandler] = {**route.HANDLERS, **namesrv_admin.HANDLERS}
