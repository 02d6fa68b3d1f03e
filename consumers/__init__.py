"""The client runtime: an asyncio library for brokerd and Apache RocketMQ."""

from brokerd.remoting.message import Message, MessageQueue, MessageRecord
from consumers.admin import MQAdmin
from consumers.client_instance import ClientInstance
from consumers.config import (
    ClientConfig,
    ConsumeFromWhere,
    InvalidClientConfig,
    MessageModel,
    ProducerConfig,
    PushConsumerConfig,
    RebalanceMode,
    RemotingClientConfig,
)
from consumers.consume_message import ConsumeContext, ConsumeStatus, Handler
from consumers.errors import (
    BrokerUnavailable,
    ClientClosed,
    MessageNotSent,
    MQBrokerError,
    MQClientError,
    RemotingTimeout,
    TooManyRequests,
    TopicRouteNotFound,
)
from consumers.producer import MessageTooLarge, Producer
from consumers.pull_result import PullResult, PullStatus
from consumers.push_consumer import PushConsumer
from consumers.send_result import SendResult, SendStatus

__all__ = [
    "BrokerUnavailable",
    "ClientClosed",
    "ClientConfig",
    "ClientInstance",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeStatus",
    "Handler",
    "InvalidClientConfig",
    "MQAdmin",
    "MQBrokerError",
    "MQClientError",
    "Message",
    "MessageModel",
    "MessageNotSent",
    "MessageQueue",
    "MessageRecord",
    "MessageTooLarge",
    "Producer",
    "ProducerConfig",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushConsumerConfig",
    "RebalanceMode",
    "RemotingClientConfig",
    "RemotingTimeout",
    "SendResult",
    "SendStatus",
    "TooManyRequests",
    "TopicRouteNotFound",
]
