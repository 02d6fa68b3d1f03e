"""Messages for an arbitrary time: how one is accepted, what it carries while it waits and what when it is delivered.

A message with TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS waits in rmq_sys_wheel_timer with its real topic and
queue among its properties; TIMER_OUT_MS is the slot of the wheel it is due with (HookUtils.java). A recall is a
message of the same slot whose TIMER_DEL_UNIQKEY names the other one (RecallMessageProcessor.java).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from brokerd.config import BrokerConfig, LiveConfig
from brokerd.remoting.message.names import SCHEDULE_TOPIC, TIMER_TOPIC, MessageProperty, TimerProperty
from brokerd.schedule_message import park
from brokerd.store.errors import WheelTimerFlowControl, WheelTimerMessageIllegal, WheelTimerNotEnable

QUEUE_ID = 0
WANTED = (MessageProperty.TIMER_DELAY_SEC, MessageProperty.TIMER_DELAY_MS, MessageProperty.TIMER_DELIVER_MS)
OF_PARKING = frozenset({MessageProperty.DELAY, *WANTED})  # without any of them a message does not wait
RECALL_TAG = "_RECALL_TAG_"
RECALL_BODY = b"0"
LONG_DIGITS_MAX = 18  # of a number in a property; Java's longs have 19


def is_timer_message(properties: Mapping[str, str]) -> bool:
    """Whether it is to wait: one that a timer has delivered keeps its properties and does not wait again."""
    return TimerProperty.OUT_MS not in properties and any(name in properties for name in WANTED)


@dataclass(frozen=True, slots=True)
class Parking:
    """Where a message waits that is not to be delivered at once."""

    config: LiveConfig
    max_delay_level: int
    precision_ms: int
    is_congested: Callable[[int], bool] = lambda _: False  # whether the slot of a time takes no more

    def park(self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int) -> tuple[str, int]:
        """Redirect a message with a delay level or a time; returns (topic, queue id) and notes the real ones.

        A delay level beats a time, which is dropped; a time in the past is now. Raises WheelTimerNotEnable,
        WheelTimerMessageIllegal, WheelTimerFlowControl.
        """
        parked = park(properties, topic, queue_id, self.max_delay_level)
        if parked[0] == SCHEDULE_TOPIC:
            for name in WANTED:
                properties.pop(name, None)
            return parked
        if not is_timer_message(properties):
            return topic, queue_id
        parked = park_until(properties, topic, queue_id, self.config.broker, self.precision_ms, now_ms)
        if parked[0] == TIMER_TOPIC and self.is_congested(int(properties[TimerProperty.OUT_MS])):
            raise WheelTimerFlowControl(
                "timer message is under flow control: timerCongestNumEachSlot messages are due in the same slot; "
                "choose another time or send again later"
            )
        return parked


def park_until(
    properties: dict[str, str],
    topic: str,
    queue_id: int,
    config: BrokerConfig,
    precision_ms: int,
    now_ms: int,
) -> tuple[str, int]:
    """Redirect a message that is due later; returns (topic, queue id) and notes the real ones.

    One whose time is past stays where it is. Raises WheelTimerNotEnable, WheelTimerMessageIllegal.
    """
    if not config.timer_wheel_enable:
        raise WheelTimerNotEnable("accurate timer message is not enabled, timerWheelEnable is false")
    deliver_ms = deliver_time_ms(properties, now_ms)
    limit_ms = config.timer_max_delay_sec * 1000
    is_recall = TimerProperty.DELETE_UNIQUE_KEY in properties
    if deliver_ms is None or deliver_ms - now_ms > limit_ms or (is_recall and deliver_ms <= now_ms):
        raise WheelTimerMessageIllegal(
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{limit_ms}ms; or if set del msg, the delay time should be bigger than the current time"
        )
    if deliver_ms <= now_ms:
        return topic, queue_id
    properties[TimerProperty.OUT_MS] = str(slot_ms(deliver_ms, precision_ms))
    properties[MessageProperty.REAL_TOPIC] = topic
    properties[MessageProperty.REAL_QUEUE_ID] = str(queue_id)
    return TIMER_TOPIC, QUEUE_ID


def deliver_time_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return when a message is to be delivered, by the first of the three properties it has; None for no number."""
    for name, unit_ms in zip(WANTED, (1000, 1, 0), strict=True):
        if name in properties:
            value = number(properties[name])
            if value is None:
                return None
            return now_ms + value * unit_ms if unit_ms else value
    return None


def slot_ms(deliver_ms: int, precision_ms: int) -> int:
    """Return the slot of a time: it is read when its whole precision is over, so a full one is in the slot before."""
    return (deliver_ms - 1) // precision_ms * precision_ms


def number(text: str) -> int | None:
    """Read a long as Java does; None for anything else."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits or len(digits) > LONG_DIGITS_MAX or not digits.isascii() or not digits.isdecimal():
        return None
    return int(text)


def delete_key(topic: str, unique_key: str) -> str:
    """Return what names a message in the recall of it."""
    return f"{topic}+{unique_key}"
