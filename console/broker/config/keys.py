"""Keys of a broker's configuration: meaning, unit, when a change takes effect, and danger.

Facts are those of `BrokerConfig`, `MessageStoreConfig` and `NettyServerConfig`. Keys that are not listed here may be
changed too, with a warning that nothing is known about them.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping

from console.text import Names, Text
from console.text.figures import duration, size

# Stands for the value of a secret key: a broker's secrets are not stored here.
SET = Text("(set, not shown)")
KEY_LENGTH_MAX, VALUE_LENGTH_MAX = 128, 4_096

_SECRET = re.compile(
    r"secret|password|passwd|credential|access_?key|private_?key|initAuthenticationUser|headers?$", re.I
)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class Effect(enum.StrEnum):
    """When a changed value takes effect."""

    AT_ONCE = Text("immediately")
    RESTART = Text("after a restart of the broker")
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of the configuration.

    `says`: its meaning in one line; `danger`: why a wrong value hurts, "" for a harmless key; `fixed`: why it is never
    changed here.
    """

    name: str
    says: Text = Text()
    unit: Text = Text()
    effect: Effect = Effect.UNKNOWN
    danger: Text = Text()
    fixed: str = ""
    choices: tuple[str, ...] = ()
    meanings: Mapping[str, Text] = dataclasses.field(default_factory=dict)
    low: int | None = None
    high: int | None = None

    @property
    def is_secret(self) -> bool:
        return is_secret(self.name)

    @property
    def unit_apart(self) -> Text:
        """Return the unit to show beside the meaning; none where that begins with it: "queues of a topic"."""
        return Text() if self.unit and self.says.startswith(f"{self.unit} ") else self.unit

    def with_unit(self, value: Text) -> Text:
        """Return a value of the key with its unit, if it has one."""
        return Text("%(value)s %(unit)s", value=value, unit=self.unit) if self.unit else value

    def meaning_of(self, value: str) -> Text | str:
        """Return a value in words where it is a code or a large number: 6 is "read and write"; "" elsewhere."""
        if value in self.meanings:
            return self.meanings[value]
        if not value.isascii() or not value.isdigit() or int(value) < WORDS_FROM:
            return ""
        if self.unit == "bytes":
            return size(int(value))
        return duration(int(value)) if self.unit == "ms" else ""


def _now(name: str, says: Text, unit: Text = Text(), **more: object) -> ConfigKey:
    return ConfigKey(name, says, unit, Effect.AT_ONCE, **more)  # type: ignore[arg-type]


def _restart(name: str, says: Text, unit: Text = Text(), **more: object) -> ConfigKey:
    return ConfigKey(name, says, unit, Effect.RESTART, **more)  # type: ignore[arg-type]


WORDS_FROM = 1_000  # a smaller number with its unit is clear as it stands
BOOL = ("true", "false")
WHO_IT_IS = Text(
    "It identifies the broker; with another value it is another broker. Set it in the broker's "
    "configuration file."
)
WHERE_IT_STORES = Text(
    "It sets where messages are stored; after a change the stored ones are not found. Set it in the "
    "broker's configuration file."
)

HOURS = Text("hours")
HOUR = Text("hour")
MS = Text("ms")
EPOCH_MS = Text("epoch ms")
BYTES = Text("bytes")
PERCENT = Text("percent")
QUEUES = Text("queues")
MESSAGES = Text("messages")
THREADS = Text("threads")
REQUESTS = Text("requests")
TIMES = Text("times")

_KEYS = (
    _restart("brokerName", Text("name of the broker in routes"), fixed=WHO_IT_IS),
    _restart("brokerClusterName", Text("name of the RocketMQ cluster"), fixed=WHO_IT_IS),
    _restart("brokerId", Text("0 is the master"), fixed=WHO_IT_IS),
    _restart("brokerIP1", Text("address that clients receive"), fixed=WHO_IT_IS),
    _restart("brokerIP2", Text("address that slaves receive"), fixed=WHO_IT_IS),
    _restart("listenPort", Text("port for clients"), fixed=WHO_IT_IS),
    _restart("storePathRootDir", Text("folder of the store"), fixed=WHERE_IT_STORES),
    _restart("storePathCommitLog", Text("folder of the commit log"), fixed=WHERE_IT_STORES),
    _restart(
        "namesrvAddr",
        Text("name servers the broker registers with"),
        danger=Text("Clients that use a removed name server no longer find the broker."),
    ),
    _now(
        "brokerPermission",
        Text(
            "permission of clients on the whole broker: 6 read and write, 4 read only, 2 write only, 0 none"
        ),
        choices=("6", "4", "2", "0"),
        meanings={
            "6": Text("read and write"),
            "4": Text("read only"),
            "2": Text("write only"),
            "0": Text("nothing"),
        },
        danger=Text("Without 2 every producer is refused (NO_PERMISSION), without 4 every consumer."),
    ),
    _now(
        "autoCreateTopicEnable",
        Text("a message to an unknown topic creates it"),
        choices=BOOL,
        danger=Text("When off, producers of topics that do not exist are refused."),
    ),
    _now(
        "autoCreateSubscriptionGroup",
        Text("an unknown group is created when it connects"),
        choices=BOOL,
        danger=Text("When off, consumers of groups that do not exist are refused."),
    ),
    _now(
        "defaultTopicQueueNums",
        Text("queues of a topic that is created automatically"),
        QUEUES,
        low=1,
        high=1024,
    ),
    _now(
        "fileReservedTime",
        Text("messages older than this are deleted, at deleteWhen or when the disk is too full"),
        HOURS,
        low=1,
        high=87_600,
        danger=Text(
            "A smaller value deletes older messages at the next clean-up; groups that are behind lose them."
        ),
    ),
    _now("deleteWhen", Text("hour of the day at which expired files are deleted"), HOUR),
    _now(
        "diskMaxUsedSpaceRatio",
        Text("above this share of the disk expired files are deleted immediately, not only at deleteWhen"),
        PERCENT,
        low=10,
        high=95,
        danger=Text(
            "Too high: no room is left before writes are refused. Too low: messages are deleted early."
        ),
    ),
    _now(
        "diskSpaceCleanForciblyRatio",
        Text("above this share of the disk files are deleted even if they have not expired"),
        PERCENT,
        low=10,
        high=97,
        danger=Text("Above it, messages are deleted before fileReservedTime."),
    ),
    _now(
        "diskSpaceWarningLevelRatio",
        Text("above this share of the disk the broker refuses to write"),
        PERCENT,
        low=10,
        high=99,
        danger=Text("On a full disk the broker may fail to restart."),
    ),
    _restart(
        "flushDiskType",
        Text("ASYNC_FLUSH answers before the message is on disk, SYNC_FLUSH after"),
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
        danger=Text(
            "SYNC_FLUSH makes sending slower; ASYNC_FLUSH can lose the last messages in a power failure."
        ),
    ),
    _restart(
        "brokerRole",
        Text("ASYNC_MASTER, SYNC_MASTER (answers when a slave has it) or SLAVE"),
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        danger=Text("After the next restart there may be two masters of one name, or none."),
    ),
    _now(
        "flushIntervalCommitLog", Text("how often the commit log is flushed to disk"), MS, low=1, high=60_000
    ),
    _now(
        "flushConsumerOffsetInterval",
        Text("how often committed offsets are saved"),
        MS,
        low=100,
        high=600_000,
    ),
    _now(
        "maxMessageSize",
        Text("largest message accepted"),
        BYTES,
        low=1_024,
        high=256 * 1024 * 1024,
        danger=Text("A message larger than a client accepts stops its consumer."),
    ),
    _now(
        "enablePropertyFilter",
        Text("SQL92 filters are allowed; without it they fail with SYSTEM_ERROR (1)"),
        choices=BOOL,
    ),
    _now(
        "waitTimeMillsInSendQueue",
        Text("a send that waits longer is answered SYSTEM_BUSY, so that the producer tries another broker"),
        MS,
        low=10,
        high=60_000,
    ),
    _now(
        "osPageCacheBusyTimeOutMills",
        Text("a write that locks the commit log longer than this means that the page cache is busy"),
        MS,
        low=10,
        high=60_000,
    ),
    _now(
        "brokerFastFailureEnable",
        Text("requests that wait too long are refused instead of piling up"),
        choices=BOOL,
    ),
    _now("longPollingEnable", Text("a pull that finds no message waits for one"), choices=BOOL),
    _now("shortPollingTimeMills", Text("wait of a pull if long polling is off"), MS, low=1, high=60_000),
    _now("litePullMessageEnable", Text("lite pull consumers are served"), choices=BOOL),
    _now(
        "notifyConsumerIdsChangedEnable",
        Text("clients are notified immediately when their group changes"),
        choices=BOOL,
    ),
    _now("useServerSideResetOffset", Text("offsets are reset in the broker's own table"), choices=BOOL),
    _now(
        "rejectTransactionMessage",
        Text("transactional messages are refused"),
        choices=BOOL,
        danger=Text("When on, producers of transactional messages get NO_PERMISSION."),
    ),
    _now("defaultQueryMaxNum", Text("maximum that a query by key returns"), MESSAGES, low=1, high=1024),
    _now(
        "transactionCheckMax",
        Text("check-backs before a half message is dropped"),
        TIMES,
        low=1,
        high=1000,
    ),
    _now("transactionCheckInterval", Text("pause between two check-backs"), MS, low=1_000, high=3_600_000),
    _now(
        "transactionTimeOut",
        Text("age at which a half message is checked"),
        MS,
        low=1_000,
        high=3_600_000,
    ),
    _now(
        "maxTransferCountOnMessageInMemory",
        Text("maximum of one pull from memory"),
        MESSAGES,
        low=1,
        high=1024,
    ),
    _now(
        "maxTransferCountOnMessageInDisk",
        Text("maximum of one pull from disk"),
        MESSAGES,
        low=1,
        high=1024,
    ),
    _now(
        "accessMessageInMemoryMaxRatio",
        Text("share of memory that counts as “in memory”"),
        PERCENT,
        low=1,
        high=90,
    ),
    _now("slaveReadEnable", Text("consumers that are far behind read from the slave"), choices=BOOL),
    _now(
        "disableConsumeIfConsumerReadSlowly",
        Text("groups that are too far behind are disabled"),
        choices=BOOL,
        danger=Text("When on, a group that is 16 GiB behind is no longer served."),
    ),
    _now("consumerFallbehindThreshold", Text("how far behind a group may fall"), BYTES),
    _now(
        "startAcceptSendRequestTimeStamp",
        Text("sends are refused until this time"),
        EPOCH_MS,
        low=0,
        danger=Text("If it is in the future, every producer is refused until then."),
    ),
    _now("traceTopicEnable", Text("the broker stores message traces"), choices=BOOL),
    _now("registerNameServerPeriod", Text("pause between registrations"), MS, low=10_000, high=60_000),
    _restart("sendMessageThreadPoolNums", Text("threads that store messages"), THREADS, low=1, high=256),
    _restart("pullMessageThreadPoolNums", Text("threads that serve pulls"), THREADS, low=1, high=512),
    _restart("sendThreadPoolQueueCapacity", Text("sends that may wait"), REQUESTS, low=1, high=1_000_000),
    _restart("pullThreadPoolQueueCapacity", Text("pulls that may wait"), REQUESTS, low=1, high=10_000_000),
    _restart("mappedFileSizeCommitLog", Text("size of one file of the commit log"), BYTES),
    _restart("mappedFileSizeConsumeQueue", Text("size of one file of a consume queue"), BYTES),
    _restart(
        "transientStorePoolEnable",
        Text("writes first go to a separate memory pool (transient store pool)"),
        choices=BOOL,
    ),
    _restart(
        "messageDelayLevel",
        Text("delays of the 18 delay levels"),
        danger=Text("Messages that already wait use the new delays."),
    ),
    _restart(
        "aclEnable",
        Text("access control of 4.x (ACL)"),
        choices=BOOL,
        danger=Text("When on, clients without an account are refused."),
    ),
    _restart(
        "authenticationEnabled",
        Text("5.x clients must sign their requests"),
        choices=BOOL,
        danger=Text("When on, clients without an account are refused."),
    ),
    _restart(
        "authorizationEnabled",
        Text("access control of 5.x (users and policies)"),
        choices=BOOL,
        danger=Text("When on, clients without a matching policy are refused."),
    ),
    _restart("timerWheelEnable", Text("messages with an exact delivery time are accepted"), choices=BOOL),
)
KEYS = {key.name: key for key in _KEYS}


def config_key(name: str) -> ConfigKey:
    """Return what is known about a key; of an unlisted key only the name."""
    return KEYS.get(name) or ConfigKey(name)


def is_secret(name: str) -> bool:
    """Whether values of this key are credentials: never shown, never stored, never compared."""
    return bool(_SECRET.search(name))


def without_secrets(config: dict[str, str]) -> dict[str, str]:
    """Return the configuration with `SET` for every secret that has a value."""
    return {key: SET if value and is_secret(key) else value for key, value in config.items()}


def is_key_name(name: str) -> bool:
    """Whether a configuration can contain a key of this name."""
    return len(name) <= KEY_LENGTH_MAX and _KEY.fullmatch(name) is not None


def problem_of(key: ConfigKey, value: str) -> Text:
    """Return why a value cannot be set; empty when it can. The broker validates the rest."""
    if not is_key_name(key.name):
        return Text(
            "%(key)s is not a configuration key: letters, digits, dots and underscores.",
            key=repr(key.name[:40]),
        )
    if key.fixed:
        return Text("%(key)s cannot be changed here. %(why)s", key=key.name, why=key.fixed)
    if key.is_secret:
        return Text(
            "%(key)s is a secret, which a plan would show. Set it in the broker's configuration file.",
            key=key.name,
        )
    if len(value) > VALUE_LENGTH_MAX:
        return Text("At most %(number)s characters.", number=VALUE_LENGTH_MAX)
    if any(letter < " " or letter in "\\\x7f" for letter in value):
        return Text(
            "Line breaks, control characters and backslashes are not allowed: they have another meaning "
            "in a broker's configuration file."
        )
    if value != value.strip():
        return Text("Spaces at the start or the end are not allowed: the broker removes them.")
    if key.choices and value not in key.choices:
        return Text("One of: %(names)s.", names=Names(key.choices))
    return _number_problem(key, value)


def _number_problem(key: ConfigKey, value: str) -> Text:
    if key.low is None and key.high is None:
        return Text()
    try:
        number = int(value)
    except ValueError:
        if key.unit:
            return Text("Enter a whole number of %(unit)s.", unit=key.unit)
        return Text("Enter a whole number.")
    if key.low is not None and number < key.low:
        return Text("At least %(value)s.", value=key.with_unit(Text.foreign(f"{key.low:,}")))
    if key.high is not None and number > key.high:
        return Text("At most %(value)s.", value=key.with_unit(Text.foreign(f"{key.high:,}")))
    return Text()
