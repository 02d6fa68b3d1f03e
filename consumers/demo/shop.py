"""The messages of a small shop: orders, clicks, payments, parcels, stock movements and reminders."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.record import MessageRecord
from consumers.producer.transaction_producer import LocalTransactionState

CLICK_RATE, CLICK_BURST_RATE = 10.0, 70.0
CLICK_PERIOD_MS, CLICK_BURST_MS = 60_000, 20_000

ORDER_STATUSES = ("created", "paid", "shipped")
PAYMENT_STEPS = ("authorized", "captured", "settled")
PRODUCTS = ("kettle", "lamp", "notebook", "backpack", "headphones", "mug", "chair", "poster")
PAGES = ("/", "/search", "/product", "/cart", "/checkout", "/help")
WAREHOUSES = ("berlin", "lyon", "porto", "turin", "gdansk")
# Of 100 stock movements as many are of the first warehouse: its queue is the hot one.
BUSY_WAREHOUSE_PERCENT = 70
DEPOTS = 40
# One depot's parcels carry no address: its group waits on the first of them until an operator intervenes.
PARCEL_WITHOUT_ADDRESS = 25
DEPOT_WITHOUT_ADDRESS = "depot-07"
# Level 5 is one minute (messageDelayLevel).
REMINDER_DELAY_LEVEL = 5
# Of 100 settlements as many are rolled back, and as many are decided only when the broker asks.
ROLLED_BACK_PERCENT, LEFT_OPEN_PERCENT = 5, 5
COMMIT = LocalTransactionState.COMMIT


@dataclass(frozen=True, slots=True)
class Flow:
    """One topic's traffic: messages a second `elapsed_ms` after the start, and the next message.

    Messages with one `order_key` stay in order: all go to the queue of their key. With `is_in_transaction` each is seen
    when a local transaction succeeded.
    """

    topic: str
    rate: Callable[[int], float]
    create: Callable[[int], Message]
    order_key: str = ""
    backlog: int = 0
    is_in_transaction: bool = False
    is_delayed: bool = False

    @property
    def message_type(self) -> str:
        """Its word in RocketMQ 5 (TopicMessageType)."""
        if self.is_in_transaction:
            return "TRANSACTION"
        return "FIFO" if self.order_key else "DELAY" if self.is_delayed else "NORMAL"


def click_rate(elapsed_ms: int) -> float:
    return CLICK_BURST_RATE if elapsed_ms % CLICK_PERIOD_MS < CLICK_BURST_MS else CLICK_RATE


class Shop:
    """Makes the messages. One random generator, so that a seed gives the same shop."""

    def __init__(self, seed: int, first_number: int) -> None:
        self._random = random.Random(seed)
        self._orders = self._numbers(first_number, ORDER_STATUSES)
        self._payments = self._numbers(first_number, PAYMENT_STEPS)
        self._first_number = first_number
        self._parcels = 0
        self._settlements = 0

    def flows(self) -> list[Flow]:
        return [
            Flow("orders", lambda _: 20.0, self.order, backlog=200),
            Flow("clicks", click_rate, self.click, backlog=600),
            Flow("payments", lambda _: 10.0, self.payment, order_key="account", backlog=80),
            Flow("parcels", lambda _: 4.0, self.parcel, order_key="depot", backlog=40),
            Flow("stock", lambda _: 8.0, self.stock_movement, order_key="warehouse", backlog=120),
            Flow("reminders", lambda _: 0.5, self.reminder, is_delayed=True),
            Flow("payment-settled", lambda _: 1.0, self.settlement, is_in_transaction=True),
        ]

    def order(self, now_ms: int) -> Message:
        number, status = next(self._orders)
        items = [
            {"sku": self._random.choice(PRODUCTS), "quantity": self._random.randint(1, 3)}
            for _ in range(self._random.randint(1, 4))
        ]
        body = {
            "orderId": f"A-{number}",
            "customer": f"c-{self._random.randint(1000, 9999)}",
            "status": status,
            "items": items,
            "totalCents": self._random.randint(500, 40_000),
            "currency": "EUR",
            "at": _iso(now_ms),
        }
        return _message("orders", body, f"A-{number}", status)

    def click(self, now_ms: int) -> Message:
        session = f"s-{self._random.getrandbits(32):08x}"
        body = {
            "session": session,
            "page": self._random.choice(PAGES),
            "device": self._random.choice(("phone", "desktop", "tablet")),
            "durationMs": self._random.randint(20, 9_000),
            "at": _iso(now_ms),
        }
        return _message("clicks", body, session, "view")

    def payment(self, now_ms: int) -> Message:
        number, step = next(self._payments)
        body = {
            "paymentId": f"P-{number}",
            "account": f"acc-{number % 50:02d}",
            "step": step,
            "amountCents": 500 + (number * 7919) % 40_000,
            "at": _iso(now_ms),
        }
        return _message("payments", body, f"P-{number}", step)

    def parcel(self, now_ms: int) -> Message:
        """One parcel of each run has no address, always from the same depot, so always in the same queue."""
        self._parcels += 1
        number = self._first_number + self._parcels
        is_unaddressed = self._parcels == PARCEL_WITHOUT_ADDRESS
        depot = DEPOT_WITHOUT_ADDRESS if is_unaddressed else f"depot-{self._random.randrange(DEPOTS):02d}"
        body = {
            "parcel": f"L-{number}",
            "depot": depot,
            "address": None if is_unaddressed else f"{self._random.randint(1, 180)} Harbour Street",
            "weightGrams": self._random.randint(80, 12_000),
            "at": _iso(now_ms),
        }
        return _message("parcels", body, f"L-{number}", "label")

    def stock_movement(self, now_ms: int) -> Message:
        is_busy = self._random.randrange(100) < BUSY_WAREHOUSE_PERCENT
        warehouse = WAREHOUSES[0] if is_busy else self._random.choice(WAREHOUSES[1:])
        sku = self._random.choice(PRODUCTS)
        body = {
            "warehouse": warehouse,
            "sku": sku,
            "change": self._random.choice((-3, -2, -1, 12)),
            "at": _iso(now_ms),
        }
        return _message("stock", body, f"{warehouse}-{sku}", "movement")

    def reminder(self, now_ms: int) -> Message:
        """Delivered a minute later by the broker."""
        customer = f"c-{self._random.randint(1000, 9999)}"
        body = {"customer": customer, "text": "Your cart is waiting for you.", "at": _iso(now_ms)}
        message = _message("reminders", body, customer, "cart")
        message.properties[MessageProperty.DELAY] = str(REMINDER_DELAY_LEVEL)
        return message

    def settlement(self, now_ms: int) -> Message:
        self._settlements += 1
        number = self._first_number + self._settlements
        body = {
            "paymentId": f"P-{number}",
            "account": f"acc-{number % 50:02d}",
            "amountCents": 500 + (number * 7919) % 40_000,
            "at": _iso(now_ms),
        }
        return _message("payment-settled", body, f"P-{number}", "settled")

    def _numbers(self, first: int, steps: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Several orders or payments are under way at once; each passes its steps in order."""
        under_way: list[tuple[int, int]] = []
        number = first
        while True:
            if len(under_way) < 5:
                under_way.append((number, 0))
                number += 1
            index = self._random.randrange(len(under_way))
            current, step = under_way[index]
            if step + 1 < len(steps):
                under_way[index] = (current, step + 1)
            else:
                under_way.pop(index)
            yield current, steps[step]


def settled(key: str) -> LocalTransactionState:
    """Return what writing a settlement to the shop's database comes to: of 100 some fail, and some end unseen."""
    bucket = zlib.crc32(key.encode()) % 100
    if bucket < ROLLED_BACK_PERCENT:
        return LocalTransactionState.ROLLBACK
    return LocalTransactionState.UNKNOWN if bucket < ROLLED_BACK_PERCENT + LEFT_OPEN_PERCENT else COMMIT


async def found_settled(message: MessageRecord) -> LocalTransactionState:
    """Look it up when the broker asks: what ended unseen had succeeded."""
    state = settled(message.keys)
    return COMMIT if state is LocalTransactionState.UNKNOWN else state


def order_key(flow: Flow, message: Message) -> str:
    """Return what keeps a message in order with others: the account of a payment, the depot of a parcel."""
    key = json.loads(message.body)[flow.order_key]
    assert isinstance(key, str)
    return key


def _message(topic: str, body: Mapping[str, object], key: str, tag: str) -> Message:
    properties = {MessageProperty.KEYS: key, MessageProperty.TAGS: tag}
    return Message(topic, json.dumps(dict(body), separators=(",", ":")).encode(), properties)


def _iso(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
