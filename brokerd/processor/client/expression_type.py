"""Kinds of filter expressions that consumers may subscribe with: tags always, SQL92 where it is switched on."""

from __future__ import annotations

from brokerd.filter.property_filter import SQL92
from brokerd.processor.broker import Broker
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.errors import error_for

TAG_TYPES = (None, "", "TAG")


def check_expression_type(broker: Broker, expression_type: str) -> None:
    """Raise SYSTEM_ERROR, as RocketMQ does, while enablePropertyFilter is off."""
    if expression_type != SQL92 or not broker.config.broker.enable_property_filter:
        raise error_for(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {expression_type}",
        )
