"""TransactionProducer: a message that consumers see if, and only if, a local transaction succeeded.

The message is stored invisibly first (a half message), then the local transaction runs, then its outcome is
sent to the broker. Where that is unknown (a crash, a lost connection, an exception) the broker queries any producer of
the group again and again; `check` answers from what the local transaction has left, such as a row in a database.
Source: TransactionMQProducer.java, DefaultMQProducerImpl.java (sendMessageInTransaction, checkTransactionState).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import RemotingError, error_for
from brokerd.remoting.header.headers import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from brokerd.remoting.message.ids import decode_offset_message_id
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import DELAY_PROPERTIES, MessageProperty, SysFlag
from brokerd.remoting.message.record import MessageRecord, decode_record
from consumers.client.client_instance import ClientInstance
from consumers.clock import Clock, system_clock
from consumers.config import InvalidClientConfig, ProducerConfig
from consumers.errors import ClientClosed, MQBrokerError, MQClientError
from consumers.producer.producer import Producer
from consumers.producer.send_result import SendResult, SendStatus
from consumers.producer.send_trace import end_transaction_trace

logger = logging.getLogger(__name__)


class LocalTransactionState(IntEnum):
    """The outcome of a local transaction; the values are END_TRANSACTION's."""

    UNKNOWN = 0
    COMMIT = SysFlag.TRANSACTION_COMMIT
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK


LocalTransaction = Callable[[SendResult], Awaitable[LocalTransactionState]]
Check = Callable[[MessageRecord], Awaitable[LocalTransactionState]]


@dataclass(frozen=True, slots=True)
class TransactionSendResult:
    """Where the half message is, what became of the local transaction, and whether the broker has confirmed that.

    Without confirmation the outcome is not lost: the broker queries it.
    """

    half: SendResult
    state: LocalTransactionState
    is_confirmed: bool

    @property
    def message_id(self) -> str:
        """The unique key: the same for the half message and for the one that consumers see."""
        return self.half.message_id


class TransactionProducer(Producer):
    """`async with TransactionProducer(group, addrs, check) as producer: await producer.send_in_transaction(m, pay)`.

    Producers of one group must be able to answer each other's checks. Everything else is as in Producer.
    """

    def __init__(
        self,
        group: str,
        namesrv_addrs: str | Sequence[str],
        check: Check,
        config: ProducerConfig | None = None,
        *,
        client: ClientInstance | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """`check(message)` returns what became of an earlier local transaction; an exception counts as UNKNOWN."""
        super().__init__(group, namesrv_addrs, config, client=client, clock=clock)
        self._check = check
        self._under_way: set[asyncio.Future[None]] = set()

    async def start(self) -> None:
        """As Producer's; from then on brokers may ask, also about what an earlier process has left.

        As in Java every broker that makes topics gets a heartbeat; the others get one with the first message.
        """
        self.client.register_transaction_producer(self.group, self._check_back)
        await super().start()
        try:
            await self.client.route(self.config.create_topic_key)
        except (MQClientError, MQBrokerError) as error:
            logger.info("no broker will ask before the first message group=%s: %s", self.group, error)
        else:
            self.client.heartbeat_soon()

    async def close(self) -> None:
        """Leave the group, let transactions and checks that run come to their end, then close."""
        self._is_closing = True
        await self.client.unregister(producer_group=self.group)
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=self.config.send_timeout_ms / 1000)
        await super().close()

    async def send_in_transaction(
        self, message: Message, execute: LocalTransaction, *, timeout_ms: int | None = None
    ) -> TransactionSendResult:
        """Store the message invisibly, run `execute`, and have its outcome carried out.

        `execute(half)` returns COMMIT, ROLLBACK, or UNKNOWN: then the broker has `check` called later, as it does when
        `execute` raises (the exception comes through). A half message that a broker could not flush or copy is rolled
        back without running `execute`. `timeout_ms` bounds storing it. Raises as Producer.send; ClientClosed.
        """
        if self._is_closing:
            raise ClientClosed("the producer is closed")
        if any(name in message.properties for name in DELAY_PROPERTIES):
            raise InvalidClientConfig("a message in a transaction cannot be delayed")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(ended)
        try:
            half = await self._send_half(message, timeout_ms)
            try:
                is_safe = half.status is SendStatus.SEND_OK
                state = await execute(half) if is_safe else LocalTransactionState.ROLLBACK
            except BaseException as error:
                await asyncio.shield(
                    self._end_half(message, half, LocalTransactionState.UNKNOWN, repr(error))
                )
                raise
            return TransactionSendResult(half, state, await self._end_half(message, half, state))
        finally:
            ended.set_result(None)
            self._under_way.discard(ended)

    async def _send_half(self, message: Message, timeout_ms: int | None) -> SendResult:
        self._sender.prepare(message)
        properties = {
            **message.properties,
            MessageProperty.TRANSACTION_PREPARED: "true",
            MessageProperty.PRODUCER_GROUP: self.group,
        }
        half = Message(message.topic, message.body, properties, message.flag)
        body, sys_flag = self._sender.outgoing.compressed(message.body)
        deadline_ms = self._clock() + (timeout_ms or self.config.send_timeout_ms)
        return await self._sender.send_with_retry(
            half, body, sys_flag | SysFlag.TRANSACTION_PREPARED, deadline_ms
        )

    async def _end_half(
        self, message: Message, half: SendResult, state: LocalTransactionState, remark: str = ""
    ) -> bool:
        """Return whether the broker has confirmed it."""
        _, _, commit_log_offset = decode_offset_message_id(half.offset_message_id)
        header = EndTransactionRequestHeader(
            producer_group=self.group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=commit_log_offset,
            commit_or_rollback=state,
            from_transaction_check=False,
            msg_id=half.message_id,
            transaction_id=half.message_id,
            topic=self._sender.topics.stored_topic(half.queue.topic),
            broker_name=half.queue.broker_name,
        )
        try:
            addr = self.client.find_addr(half.queue.broker_name, only_this=True)
            self._trace_end(message, header, addr)
            return await self._end(addr, header, remark)
        except (MQClientError, MQBrokerError) as error:
            logger.warning(
                "transaction not ended, the broker will ask message_id=%s: %s", half.message_id, error
            )
            return False

    async def _end(self, addr: str, header: EndTransactionRequestHeader, remark: str = "") -> bool:
        """END_TRANSACTION (37). Raises MQClientError, MQBrokerError. An unknown state is never answered."""
        is_unknown = header.commit_or_rollback == LocalTransactionState.UNKNOWN
        request = RemotingCommand.request(
            RequestCode.END_TRANSACTION, header.to_ext_fields(), oneway=is_unknown
        )
        request.remark = remark or None
        if is_unknown:
            await self.client.remoting.invoke_oneway(addr, request, self.config.send_timeout_ms)
            return False
        response = await self.client.remoting.invoke(addr, request, self.config.send_timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise error_for(response.code, response.remark)
        return True

    async def _check_back(self, command: RemotingCommand, addr: str) -> None:
        """CHECK_TRANSACTION_STATE (39), one-way: find out what became of a transaction, and have it carried out."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(ended)
        try:
            request = CheckTransactionStateRequestHeader.from_ext_fields(command.ext_fields)
            record = self._namespace.unwrap_record(decode_record(command.body))
            state, remark = await self._checked(record)
            header = EndTransactionRequestHeader(
                producer_group=self.group,
                tran_state_table_offset=request.tran_state_table_offset,
                commit_log_offset=request.commit_log_offset,
                commit_or_rollback=state,
                from_transaction_check=True,
                msg_id=record.message_id,
                transaction_id=request.transaction_id,
                topic=request.topic,
                broker_name=request.broker_name,
            )
            self._trace_end(record, header, addr)
            await self._end(addr, header, remark)
        except (MQClientError, MQBrokerError, RemotingError) as error:
            logger.warning(
                "check of a transaction not answered, the broker will ask again addr=%s: %s", addr, error
            )
        finally:
            ended.set_result(None)
            self._under_way.discard(ended)

    def _trace_end(
        self, message: Message | MessageRecord, header: EndTransactionRequestHeader, addr: str
    ) -> None:
        if self.traces is not None:
            group = self._namespace.unwrap(self.group)
            self.traces.append(end_transaction_trace(message, header, group, addr, self._clock()))

    async def _checked(self, record: MessageRecord) -> tuple[LocalTransactionState, str]:
        """(state, remark); what the check raises is logged."""
        try:
            return await self._check(record), ""
        except Exception as error:
            logger.exception("check of a transaction failed message_id=%s", record.message_id)
            return LocalTransactionState.UNKNOWN, repr(error)
