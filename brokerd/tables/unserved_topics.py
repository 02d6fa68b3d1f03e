"""Topics of an Apache store that are not served here, each with the reason that clients get.

They are kept as they are for the day the store goes back. Source: `TopicAttributes.java` and
`TopicQueueMappingManager.java`.
"""

from __future__ import annotations

import logging
from pathlib import Path

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.errors import RemotingError

logger = logging.getLogger(__name__)

MAPPING_FILE = "topicQueueMapping.json"
QUEUE_TYPE, IN_BATCHES = "queue.type", "BatchCQ"
CLEANUP_POLICY, COMPACTED = "cleanup.policy", "COMPACTION"


def is_in_batches(config: TopicConfig) -> bool:
    """Return whether its queues lie in batchconsumequeue/: with one in consumequeue/ too Apache does not start."""
    return config.attributes.get(QUEUE_TYPE) == IN_BATCHES


def reason_of(config: TopicConfig, static_topics: frozenset[str]) -> str:
    """Return why a topic is not served; "" for one that is."""
    if is_in_batches(config):
        what = f"keeps its messages in batches ({QUEUE_TYPE}={IN_BATCHES})"
    elif config.attributes.get(CLEANUP_POLICY) == COMPACTED:
        what = f"keeps the newest message of each key ({CLEANUP_POLICY}={COMPACTED})"
    elif config.topic_name in static_topics:
        what = f"is a static topic ({MAPPING_FILE})"
    else:
        return ""
    return (
        f"topic[{config.topic_name}] {what}, which this broker does not serve; use it with Apache RocketMQ 5"
    )


def read_static_topics(folder: Path) -> frozenset[str]:
    """Return the topics whose queues are mapped; none where the file cannot be read, which is logged."""
    path = folder / MAPPING_FILE
    try:
        mappings = fastjson.loads(path.read_bytes()).get("topicQueueMappingInfoMap") or {}
        return frozenset(map(str, mappings))
    except FileNotFoundError:
        pass
    except (OSError, RemotingError, TypeError, AttributeError) as error:
        logger.warning("%s is not read, its topics are served as ordinary ones: %s", path, error)
    return frozenset()
