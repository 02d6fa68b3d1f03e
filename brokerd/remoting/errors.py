"""Everything that can go wrong on the wire.

RemotingError            what arrived cannot be understood; the connection is unusable
  RemotingCommandError     a frame or its header is malformed
    FrameTooLarge            longer than FRAME_BYTES_MAX, or shorter than its own prefix
  HeaderFieldError         a request's field is missing or of the wrong form: answer INVALID_PARAMETER
  BodyError                a body is not the JSON or the records it should be
    TornRecord               the bytes end inside a message record
    CorruptRecord            a message record contradicts itself
MQBrokerError            an answer other than success; one subclass per code callers decide on
"""

from brokerd.remoting.codes import ResponseCode


class RemotingError(Exception):
    """The peer sent what the protocol does not allow."""


class RemotingCommandError(RemotingError):
    """A frame or its header is malformed; the rest of the stream cannot be trusted."""


class FrameTooLarge(RemotingCommandError):
    """The length prefix announces `length` bytes where at most `limit` are allowed."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"frame of {length} bytes; at most {limit} are allowed")
        self.length, self.limit = length, limit


class HeaderFieldError(RemotingError):
    """The header field `field` (its wire name) is missing or has no value of its type."""

    def __init__(self, field: str, value: str | None, reason: str) -> None:
        super().__init__(
            f"header field {field}: {reason}" + ("" if value is None else f", not {value[:100]!r}")
        )
        self.field, self.value, self.reason = field, value, reason


class BodyError(RemotingError):
    """A body does not fit its request code."""


class TornRecord(BodyError):
    """The bytes end inside a message record."""


class CorruptRecord(BodyError):
    """A message record contradicts itself: wrong magic, lengths that do not add up, wrong checksum."""


class MQBrokerError(Exception):
    """A broker or name server answered with another code than success. `retriable`: elsewhere or later it may work."""

    retriable = False

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(code, remark)
        self.code, self.remark = code, remark

    def __str__(self) -> str:
        try:
            name = ResponseCode(self.code).name
        except ValueError:
            name = "UNKNOWN_CODE"
        return f"{name} ({self.code}): {self.remark or 'no remark'}"


class SystemError_(MQBrokerError):
    """1: anything the broker has no better code for."""

    retriable = True


class SystemBusy(MQBrokerError):
    """2: flow control; the request was not done."""

    retriable = True


class RequestCodeNotSupported(MQBrokerError):
    """3: this broker does not serve the request."""


class MessageIllegal(MQBrokerError):
    """13: message too large or of illegal form."""


class ServiceNotAvailable(MQBrokerError):
    """14: the store does not take messages now (full disk, shutting down)."""

    retriable = True


class NoPermission(MQBrokerError):
    """16: the topic, group or user may not do this."""

    retriable = True


class TopicNotExist(MQBrokerError):
    """17: no such topic here. A producer may find it on another broker."""

    retriable = True


class QueryNotFound(MQBrokerError):
    """22: no such offset, key or entry."""


class SubscriptionNotExist(MQBrokerError):
    """24: the group's subscription is not known yet; the next heartbeat brings it."""

    retriable = True


class SubscriptionGroupNotExist(MQBrokerError):
    """26: no such group, and groups are not made automatically."""


class InvalidParameter(MQBrokerError):
    """29: a field is missing or wrong."""


class NoBuyerId(MQBrokerError):
    """204: kept for its code."""

    retriable = True


class NotInCurrentUnit(MQBrokerError):
    """205: the topic lives in another unit."""

    retriable = True


class ConsumerNotOnline(MQBrokerError):
    """206: no member of the group is connected."""


class ConsumeMessageTimeout(MQBrokerError):
    """207: the client behind the broker did not answer in time."""


class FlowControl(MQBrokerError):
    """215: slow down."""

    retriable = True


class GoAway(MQBrokerError):
    """1500: the broker is shutting down; reconnect elsewhere."""

    retriable = True


# The producer's retry codes are 17, 14, 1, 2, 16, 204, 205, 1500 (DefaultMQProducerImpl); pull adds its own.
ERRORS: dict[int, type[MQBrokerError]] = {
    ResponseCode.SYSTEM_ERROR: SystemError_,
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: RequestCodeNotSupported,
    ResponseCode.MESSAGE_ILLEGAL: MessageIllegal,
    ResponseCode.SERVICE_NOT_AVAILABLE: ServiceNotAvailable,
    ResponseCode.NO_PERMISSION: NoPermission,
    ResponseCode.TOPIC_NOT_EXIST: TopicNotExist,
    ResponseCode.QUERY_NOT_FOUND: QueryNotFound,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: SubscriptionNotExist,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: SubscriptionGroupNotExist,
    ResponseCode.INVALID_PARAMETER: InvalidParameter,
    ResponseCode.NO_BUYER_ID: NoBuyerId,
    ResponseCode.NOT_IN_CURRENT_UNIT: NotInCurrentUnit,
    ResponseCode.CONSUMER_NOT_ONLINE: ConsumerNotOnline,
    ResponseCode.CONSUME_MSG_TIMEOUT: ConsumeMessageTimeout,
    ResponseCode.FLOW_CONTROL: FlowControl,
    ResponseCode.GO_AWAY: GoAway,
}


def error_for(code: int, remark: str | None) -> MQBrokerError:
    """Return the error that an answer with this code means."""
    return ERRORS.get(code, MQBrokerError)(int(code), remark or "")
