"""Bring an account, a user or the white addresses of one broker to a target, and say what stands between."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from console.broker.acl.facts import NewSecret
from console.broker.acl.rights import (
    ACCOUNT,
    NEW,
    SECRET_KEYS,
    SUBJECT_PREFIX,
    USER,
    USER_KEYS,
    WHITE,
    WHITE_KEY,
    account_of,
    acl_of,
    policies_of,
    user_of,
)
from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin, MQBrokerError
from console.operation.config.row import Config


def is_between(now: Config | None, before: Config | None, after: Config | None) -> bool:
    """Return whether every key is as before or as it shall be: a user takes several requests, which may break off."""
    if now is None:
        return before is None or after is None
    former, wanted = before or {}, after or {}
    return all(now.get(key) in (former.get(key), wanted.get(key)) for key in {*now, *former, *wanted})


def send(
    admin: BlockingMQAdmin,
    addr: str,
    what: str,
    name: str,
    now: Config | None,
    after: Config | None,
    secret: NewSecret | None,
) -> None:
    """Bring one broker from ``now`` to ``after``. Raises as MQAdmin, a refusal without the secret."""
    value = (
        secret.value if secret is not None and (after or {}).get(SECRET_KEYS.get(what, "")) == NEW else None
    )
    sender = SENDERS[what]
    admin.run(lambda client: sender(client, addr, name, now, after, value))


@contextlib.contextmanager
def _unrepeated(secret: str | None) -> Iterator[None]:
    """Take a secret out of a refusal: 4.9.7 repeats one that it does not accept."""
    try:
        yield
    except MQBrokerError as error:
        if secret and secret in error.remark:
            raise MQBrokerError(error.code, error.remark.replace(secret, "…")) from None
        raise


async def _send_account(
    client: MQAdmin, addr: str, name: str, now: Config | None, after: Config | None, secret: str | None
) -> None:
    if after is None:
        await client.delete_account(addr, name)
        return
    if secret is None:
        # Request 50 needs the secret key with every change: the account's own, which stays in this call.
        accounts = (await client.acl_config(addr)).plain_access_configs
        secret = next((each.secret_key for each in accounts if each.access_key == name), None)
    with _unrepeated(secret):
        await client.put_account(addr, account_of(name, after, secret))


async def _send_white(
    client: MQAdmin, addr: str, name: str, now: Config | None, after: Config | None, secret: str | None
) -> None:
    text: Any = (after or {})[WHITE_KEY]
    await client.put_white_addresses(addr, white_list(text))


async def _send_user(
    client: MQAdmin, addr: str, name: str, now: Config | None, after: Config | None, secret: str | None
) -> None:
    if after is None:
        await client.delete_user(addr, name)
        return
    former, wanted = policies_of(now or {}), policies_of(after)
    if now is None:
        with _unrepeated(secret):
            await client.create_user(addr, user_of(name, after, secret))
    elif any(now[key] != after[key] for key in USER_KEYS):
        with _unrepeated(secret):
            await client.update_user(addr, user_of(name, after, secret))
    for resource in former:
        if resource not in wanted:
            await client.delete_acl(addr, SUBJECT_PREFIX + name, resource, "Custom")
    changed = {key: words for key, words in wanted.items() if former.get(key) != words}
    if changed:
        call = client.update_acl if former else client.create_acl
        await call(addr, acl_of(name, changed))


SENDERS = {ACCOUNT: _send_account, USER: _send_user, WHITE: _send_white}


def white_list(text: str) -> list[str]:
    """Split white addresses at commas that are in no braces: `192.0.2.{7,8}, 192.0.2.9`."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and parts[-1].count("{") > parts[-1].count("}"):
            parts[-1] += "," + part
        elif part.strip():
            parts.append(part.strip())
    return parts
