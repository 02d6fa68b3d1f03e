"""Subscriptions: from an expression to what the heartbeat carries and what the consumer checks again. Pure.

Semantics reference 3.1, 3.2 (FilterAPI.java).
"""

from __future__ import annotations

from brokerd.remoting.body.client import CheckClientRequestBody, SubscriptionData
from brokerd.remoting.message.java_hash import java_string_hash
from brokerd.remoting.message.record import MessageRecord
from consumers.config import InvalidClientConfig

ALL_TAGS = "*"
TAG = "TAG"
SQL92 = "SQL92"


def build_subscription(
    topic: str, expression: str, sub_version: int, expression_type: str = TAG
) -> SubscriptionData:
    """`expression` is `*`, tags joined by `||`, or SQL92 text.

    Raises InvalidClientConfig for tags without a name.
    """
    if expression_type != TAG:
        return SubscriptionData(
            topic=topic,
            sub_string=expression,
            tags_set=[],
            code_set=[],
            sub_version=sub_version,
            expression_type=expression_type,
        )
    tags: list[str] = []
    if expression.strip() not in ("", ALL_TAGS):
        tags = sorted({tag.strip() for tag in expression.split("||") if tag.strip()})
        if not tags:
            raise InvalidClientConfig(f"subscription {expression!r} of topic {topic} names no tag")
    return SubscriptionData(
        topic=topic,
        sub_string=expression.strip() or ALL_TAGS,
        tags_set=tags,
        code_set=sorted({java_string_hash(tag) for tag in tags}),
        sub_version=sub_version,
        expression_type=TAG,
    )


def check_body(client_id: str, group: str, subscription: SubscriptionData) -> bytes:
    """Build the body of CHECK_CLIENT_CONFIG (46): whether the broker can filter like that."""
    return CheckClientRequestBody(client_id=client_id, group=group, subscription_data=subscription).to_body()


def matches(subscription: SubscriptionData, message: MessageRecord) -> bool:
    """Compare the text of tags: the broker compares hashes only, and two tags may share one."""
    return not _names_tags(subscription) or message.tags in subscription.tags_set


def matching(subscription: SubscriptionData, messages: list[MessageRecord]) -> list[MessageRecord]:
    """Return those that match; without tags all, at no cost for each."""
    if not _names_tags(subscription):
        return messages
    return [message for message in messages if matches(subscription, message)]


def _names_tags(subscription: SubscriptionData) -> bool:
    return subscription.expression_type == TAG and bool(subscription.tags_set)
