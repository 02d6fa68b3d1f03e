"""Errors of brokers and of connections to them, for callers without access to `mqadmin` (REST)."""

from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, MQClientError, RemotingTimeout

__all__ = ["BrokerUnavailable", "MQBrokerError", "MQClientError", "RemotingTimeout"]
