"""Group the keys of a broker's configuration by area, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from console.broker.config.keys import ConfigKey

Line = TypeVar("Line")

# Area → its keys, in the order of the page; every key with an explanation has one (tested).
AREAS: tuple[tuple[Promise | str, frozenset[str]], ...] = (
    (
        gettext_lazy("Permission and access"),
        frozenset(
            {
                *(
                    "brokerPermission",
                    "autoCreateTopicEnable",
                    "autoCreateSubscriptionGroup",
                    "defaultTopicQueueNums",
                ),
                *("aclEnable", "authenticationEnabled", "authorizationEnabled", "rejectTransactionMessage"),
                "startAcceptSendRequestTimeStamp",
            }
        ),
    ),
    (
        gettext_lazy("Disk and retention"),
        frozenset(
            {
                *("fileReservedTime", "deleteWhen", "diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio"),
                *("diskSpaceWarningLevelRatio", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"),
            }
        ),
    ),
    (
        gettext_lazy("Writing"),
        frozenset(
            {
                *("flushDiskType", "flushIntervalCommitLog", "maxMessageSize", "waitTimeMillsInSendQueue"),
                *("osPageCacheBusyTimeOutMills", "brokerFastFailureEnable", "transientStorePoolEnable"),
                *("sendMessageThreadPoolNums", "sendThreadPoolQueueCapacity"),
            }
        ),
    ),
    (
        gettext_lazy("Reading"),
        frozenset(
            {
                *(
                    "longPollingEnable",
                    "shortPollingTimeMills",
                    "litePullMessageEnable",
                    "enablePropertyFilter",
                ),
                *(
                    "maxTransferCountOnMessageInMemory",
                    "maxTransferCountOnMessageInDisk",
                    "defaultQueryMaxNum",
                ),
                *(
                    "accessMessageInMemoryMaxRatio",
                    "disableConsumeIfConsumerReadSlowly",
                    "consumerFallbehindThreshold",
                ),
                *(
                    "pullMessageThreadPoolNums",
                    "pullThreadPoolQueueCapacity",
                    "notifyConsumerIdsChangedEnable",
                ),
                *("useServerSideResetOffset", "flushConsumerOffsetInterval"),
            }
        ),
    ),
    (
        gettext_lazy("Delay, transactions, trace"),
        frozenset(
            {
                *("messageDelayLevel", "timerWheelEnable", "transactionCheckMax", "transactionCheckInterval"),
                *("transactionTimeOut", "traceTopicEnable"),
            }
        ),
    ),
    (
        gettext_lazy("Identity, replicas, name servers"),
        frozenset(
            {
                *(
                    "brokerName",
                    "brokerClusterName",
                    "brokerId",
                    "brokerIP1",
                    "brokerIP2",
                    "listenPort",
                    "namesrvAddr",
                ),
                *(
                    "registerNameServerPeriod",
                    "brokerRole",
                    "slaveReadEnable",
                    "storePathRootDir",
                    "storePathCommitLog",
                ),
            }
        ),
    ),
)


def by_area(keyed: Sequence[tuple[ConfigKey, Line]]) -> list[tuple[Promise | str, list[Line]]]:
    """Group the lines of a page by area, without empty areas; keys without an area come last, unnamed."""
    found: list[tuple[Promise | str, list[Line]]] = [
        (title, [line for key, line in keyed if key.name in names]) for title, names in AREAS
    ]
    named = frozenset().union(*(names for _, names in AREAS))
    found.append(("", [line for key, line in keyed if key.name not in named]))
    return [(title, lines) for title, lines in found if lines]
