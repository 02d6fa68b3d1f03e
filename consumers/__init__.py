"""The client runtime: an asyncio library for brokerd and Apache RocketMQ."""

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from brokerd.remoting.signature import AccessKeys
from consumers.admin.mqadmin import MQAdmin
from consumers.client.client_instance import ClientInstance
from consumers.client.namespace import Namespace
from consumers.client.subscription import SQL92
from consumers.client.tls import tls_context
from consumers.config import (
    ClientConfig,
    CompressionType,
    ConsumeFromWhere,
    InvalidClientConfig,
    MessageModel,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
    RebalanceMode,
    RemotingClientConfig,
)
from consumers.consumer.consume_message import ConsumeContext, ConsumeStatus, Handler
from consumers.consumer.pull_consumer import NotAssigned, PullConsumer
from consumers.consumer.pull_result import PullResult, PullStatus
from consumers.consumer.push_consumer import PushConsumer
from consumers.errors import (
    BrokerUnavailable,
    ClientClosed,
    MessageNotSent,
    MQBrokerError,
    MQClientError,
    NoReply,
    RemotingTimeout,
    TooManyRequests,
    TopicRouteNotFound,
)
from consumers.producer.outgoing import MessageTooLarge
from consumers.producer.producer import Producer
from consumers.producer.publish_info import QueueSelector
from consumers.producer.reply import reply_to
from consumers.producer.send_result import SendResult, SendStatus
from consumers.producer.transaction_producer import (
    LocalTransactionState,
    TransactionProducer,
    TransactionSendResult,
)

__all__ = [
    "SQL92",
    "AccessKeys",
    "BrokerUnavailable",
    "ClientClosed",
    "ClientConfig",
    "ClientInstance",
    "CompressionType",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeStatus",
    "Handler",
    "InvalidClientConfig",
    "LocalTransactionState",
    "MQAdmin",
    "MQBrokerError",
    "MQClientError",
    "Message",
    "MessageModel",
    "MessageNotSent",
    "MessageQueue",
    "MessageRecord",
    "MessageTooLarge",
    "Namespace",
    "NoReply",
    "NotAssigned",
    "Producer",
    "ProducerConfig",
    "PullConsumer",
    "PullConsumerConfig",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushConsumerConfig",
    "QueueSelector",
    "RebalanceMode",
    "RemotingClientConfig",
    "RemotingTimeout",
    "SendResult",
    "SendStatus",
    "TooManyRequests",
    "TopicRouteNotFound",
    "TransactionProducer",
    "TransactionSendResult",
    "reply_to",
    "tls_context",
]
