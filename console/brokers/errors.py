"""Errors of brokers and of connections to them, also for callers without access to `mqadmin` (REST)."""

from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, MQClientError, RemotingTimeout

__all__ = ["BROKER_TROUBLE", "BrokerUnavailable", "MQBrokerError", "MQClientError", "RemotingTimeout"]

# A broker does not answer, or refuses: what a caller shows or records with its reason.
BROKER_TROUBLE = (BrokerUnavailable, MQBrokerError, RemotingTimeout)
