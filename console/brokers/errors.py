"""What brokers and the way to them can answer badly, for callers that have no door to brokers of their own (REST)."""

from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, MQClientError, RemotingTimeout

__all__ = ["BrokerUnavailable", "MQBrokerError", "MQClientError", "RemotingTimeout"]
