"""How members of a group get a topic's messages, as each broker reports it (402), and facts for a change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    MQAdmin,
    MQBrokerError,
    ResponseCode,
)
from console.brokers.queues import ask_each, require_answer
from console.operation.config.row import Config
from console.text import Text
from console.text.stored import Stored

PULL, POP = "PULL", "POP"
MODES = (PULL, POP)
MEMBERS_READ_MAX = 16  # each request is relayed by a broker
ASK_MEMBERS_MS = 8_000  # a member that hangs does not delay the plan: how it rebalances is then unknown
LANGUAGES_WITHOUT_POP = ("PYTHON",)  # they let a broker assign queues, and only pull
POP_CAPABILITY = "pop"  # capability that a Tidemark broker lists once it serves POP


@dataclasses.dataclass(frozen=True, slots=True)
class ModeSetting:
    """A mode and its share.

    `share`, for POP: over how many further members a queue is shared, 0: all. `is_set` false: the broker's
    default.
    """

    mode: str
    share: int
    is_set: bool

    def value(self) -> Config:
        """Return the setting as in a row of a plan, under the names of the protocol."""
        return {"mode": self.mode, "popShareQueueNum": self.share}


class ModeValue(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """A setting under the names of the protocol."""

    mode: str
    share: int = msgspec.field(name="popShareQueueNum")

    @property
    def setting(self) -> ModeSetting:
        """The setting, as one to write."""
        return ModeSetting(self.mode, self.share, is_set=True)


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerModes:
    """The modes that one broker reports.

    `set_by`: (topic, group) → setting. `is_able` false: its release has no modes (before 5.0). `no_pop`: why
    it would not serve POP, "" when it does.
    """

    is_able: bool
    set_by: Mapping[tuple[str, str], ModeSetting]
    default: ModeSetting
    no_pop: str

    def of(self, topic: str, group: str) -> ModeSetting:
        """Return the setting in effect for a group on a topic."""
        return self.set_by.get((topic, group), self.default)


async def ask_modes(client: MQAdmin, addr: str) -> BrokerModes:
    """Read the modes of one broker with three requests; an ACL may forbid reading its configuration."""
    default, no_pop = ModeSetting(PULL, 0, is_set=False), ""
    try:
        config = await client.broker_config(addr)
    except MQBrokerError:
        config = {}
    if config.get("defaultMessageRequestMode") == POP:
        share = config.get("defaultPopShareQueueNum", "0")
        default = ModeSetting(POP, int(share) if share.lstrip("-").isdigit() else 0, is_set=False)
    capabilities = await client.capabilities(addr)
    if capabilities and POP_CAPABILITY not in capabilities:
        no_pop = Text("it does not serve POP yet: clients set to POP would get no messages")
    elif config.get("timerWheelEnable") == "false":
        no_pop = Text("it answers no POP while its timerWheelEnable is false")
    try:
        table = await client.message_request_modes(addr)
    except MQBrokerError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return BrokerModes(False, {}, default, no_pop)
    found = {
        (topic, group): ModeSetting(one.mode, one.pop_share_queue_num, is_set=True)
        for topic, groups in table.items()
        for group, one in groups.items()
    }
    return BrokerModes(True, found, default, no_pop)


def read_modes(admin: BlockingMQAdmin, addrs: Mapping[str, str]) -> dict[str, BrokerModes]:
    """Read the modes of every broker. Raises BrokerUnavailable, MQBrokerError."""
    answers = ask_each(admin, addrs, ask_modes)
    return {name: require_answer(name, addrs[name], answer) for name, answer in answers.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Followers:
    """Members by whether they let the broker assign queues: only those follow the mode.

    `unknown`: not asked, or no answer.
    """

    follow: Sequence[str] = ()
    ignore: Sequence[str] = ()
    unknown: Sequence[str] = ()

    @property
    def online(self) -> int:
        """Number of all members online."""
        return len(self.follow) + len(self.ignore) + len(self.unknown)


def ask_followers(admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str) -> Followers:
    """Read whether each member lets the broker assign (307) and can pop. Raises as read_modes."""
    where: dict[str, str] = {}
    cannot_pop: set[str] = set()
    online = ask_each(admin, addrs, lambda client, addr: client.consumer_connection(addr, group))
    for name, answer in online.items():
        connection = require_answer(name, addrs[name], answer, Text("who its clients are"))
        for one in () if connection is None else connection.connection_set:
            where.setdefault(one.client_id, addrs[name])
            if one.language in LANGUAGES_WITHOUT_POP:
                cannot_pop.add(one.client_id)
    chosen = sorted(where)[:MEMBERS_READ_MAX]
    answers = admin.gather(
        {client_id: partial(_lets_broker_assign, where[client_id], group, client_id) for client_id in chosen},
        ASK_MEMBERS_MS,
    )
    return Followers(
        follow=[one for one, answer in answers.items() if answer is True and one not in cannot_pop],
        ignore=[
            one
            for one, answer in answers.items()
            if answer is False or (answer is True and one in cannot_pop)
        ],
        unknown=[one for one in sorted(where) if isinstance(answers.get(one, ValueError()), Exception)],
    )


async def _lets_broker_assign(addr: str, group: str, client_id: str, client: MQAdmin) -> bool:
    return lets_broker_assign((await client.consumer_running_info(addr, group, client_id)).properties)


def lets_broker_assign(properties: Mapping[str, str]) -> bool:
    """Return whether a member takes what brokers assign, by its properties (307).

    Clients without the setting (Java before 5.0, Go, C++) and orderly ones divide the queues themselves.
    """
    return properties.get("clientRebalance") == "false" and properties.get("PROP_CONSUMEORDERLY") != "true"
