"""What a slave takes over from its master beside the log: topics, groups, offsets, delay levels, modes of groups.

Source: `SlaveSynchronize.java`, semantics §11. Requests 21, 201, 43, 45, 402 and 61 of the ordinary protocol, every
10 s (as 4.x; 5.x: 60 s) and at once when the log brings a queue that is not known here; how far the master's timer has
come (60) every 3 s. What cannot be read from the master stays as it was.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from brokerd.connections.link import UNANSWERED, RemotingLink
from brokerd.remoting.body.group import SubscriptionGroupWrapper
from brokerd.remoting.body.offset import ConsumerOffsetWrapper
from brokerd.remoting.body.topic import TopicConfigSerializeWrapper
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, error_for
from brokerd.remoting.signature import AccessKeys, sign
from brokerd.schedule_message import ScheduleMessageService
from brokerd.tables.assignment import AssignmentManager
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.subscription_group import SubscriptionGroupManager
from brokerd.tables.topic_config import TopicConfigManager
from brokerd.timer.slave_timer import SlaveTimer
from brokerd.timer.timer_checkpoint import TimerProgress

logger = logging.getLogger(__name__)

PERIOD_S = 10.0
TIMER_PERIOD_S = 3.0
PAUSE_S = 0.2  # between two rounds: new queues of a moment share one
ANSWER_WITHIN_S = 10.0  # tables of 10,000 groups
# Of a master without a timer: 4.x has no such request, with timerWheelEnable=false it has nothing to answer.
WITHOUT_TIMER = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SYSTEM_ERROR)


@dataclass(frozen=True, slots=True)
class SlaveTables:
    """What is taken over."""

    topics: TopicConfigManager
    groups: SubscriptionGroupManager
    offsets: ConsumerOffsetManager
    schedule: ScheduleMessageService
    assignments: AssignmentManager
    timer: SlaveTimer | None  # None with timerWheelEnable=false


class SlaveSynchronize:
    """Follows the tables of one master. Single-threaded: the event loop."""

    def __init__(
        self,
        tables: SlaveTables,
        is_following: Callable[[], bool],
        drop_topic: Callable[[str], None],
        tls: ssl.SSLContext | None = None,
        keys: AccessKeys | None = None,
    ) -> None:
        """`is_following`: whether the log is this master's; only then are the tables, and its deletions.

        `drop_topic` removes what is stored of a topic that the master deleted. `keys` sign requests to a master with
        access control.
        """
        self._is_following = is_following
        self._tables = tables
        self._drop_topic = drop_topic
        self._tls = tls
        self._keys = keys
        self._link: RemotingLink | None = None
        self._soon = asyncio.Event()
        self._faults: dict[str, str] = {}  # why the last round of each sort ended early

    def follow(self, master: str) -> None:
        """Take the master's address; the next round asks there."""
        if self._link is not None and self._link.address == master:
            return
        if self._link is not None:
            self._link.close()
        logger.info("tables are taken over from master=%s", master)
        self._link = RemotingLink(master, self._tls)
        self._soon.set()

    def soon(self) -> None:
        """Do not wait for the next period."""
        self._soon.set()

    async def run(self) -> None:
        """Synchronize until cancelled."""
        while True:
            await self._round("tables", self._take_all)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._soon.wait(), PERIOD_S)
            self._soon.clear()
            await asyncio.sleep(PAUSE_S)

    async def run_timer(self, timer: SlaveTimer) -> None:
        """Let the timer follow its master's until cancelled."""

        async def take(link: RemotingLink) -> None:
            body = await self._read_of_timer(link, RequestCode.GET_TIMER_CHECK_POINT)
            if body is not None:
                timer.follow(TimerProgress.decode(body))

        while True:
            await self._round("timer's progress", take)
            await asyncio.sleep(TIMER_PERIOD_S)

    async def _round(self, what: str, take: Callable[[RemotingLink], Awaitable[None]]) -> None:
        link = self._link
        if link is None or not self._is_following():
            return
        fault, before = "", self._faults.get(what, "")
        try:
            await take(link)
        except (*UNANSWERED, MQBrokerError, ValueError, KeyError, TypeError, AttributeError) as error:
            fault = f"{type(error).__name__}: {error}"
        if fault and fault != before:
            logger.warning("%s not taken over master=%s: %s; trying again", what, link.address, fault)
        elif before and not fault:
            logger.info("%s taken over again master=%s", what, link.address)
        self._faults[what] = fault

    async def _take_all(self, link: RemotingLink) -> None:
        """Raise UNANSWERED, MQBrokerError, or ValueError and its like for a body of another form."""
        tables = self._tables
        topics = await self._read(link, RequestCode.GET_ALL_TOPIC_CONFIG)
        for topic in tables.topics.follow(TopicConfigSerializeWrapper.from_body(topics)):
            logger.info("topic deleted by the master topic=%s", topic)
            self._drop_topic(topic)
        groups = await self._read(link, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        tables.groups.follow(SubscriptionGroupWrapper.from_body(groups))
        offsets = await self._read(link, RequestCode.GET_ALL_CONSUMER_OFFSET)
        tables.offsets.follow(ConsumerOffsetWrapper.from_body(offsets))
        delays = await self._read(link, RequestCode.GET_ALL_DELAY_OFFSET)
        tables.schedule.follow(delays)
        try:
            modes = await self._read(link, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        except MQBrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # 4.x has none
                raise
        else:
            tables.assignments.follow(modes)
        if tables.timer is not None:
            counts = await self._read_of_timer(link, RequestCode.GET_TIMER_METRICS)
            if counts is not None:
                tables.timer.metrics.follow(counts)

    async def _read_of_timer(self, link: RemotingLink, code: RequestCode) -> bytes | None:
        try:
            return await self._read(link, code)
        except MQBrokerError as error:
            if error.code not in WITHOUT_TIMER:
                raise
            return None

    async def _read(self, link: RemotingLink, code: RequestCode) -> bytes:
        command = RemotingCommand.request(code)
        if self._keys is not None:
            sign(command, self._keys)
        response = await link.ask(command, ANSWER_WITHIN_S)
        if response.code != ResponseCode.SUCCESS:
            raise error_for(response.code, f"request {int(code)}: {response.remark}")
        return bytes(response.body)
