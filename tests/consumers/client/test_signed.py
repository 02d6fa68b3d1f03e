"""Requests of a client with access keys: each is signed, whatever way it is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import AccessKeys, signature_of, signed_content
from consumers.__main__ import keys_of, parse_arguments
from consumers.client.remoting_client import RemotingClient
from consumers.config import InvalidClientConfig, RemotingClientConfig
from tests.consumers.fake_broker import FakeBroker, wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example

KEYS = AccessKeys("shop", "secret-of-shop", "token-1")


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as fake:
        fake.answers[105] = lambda command: command.response(0)
        yield fake


def is_signed(command: RemotingCommand) -> bool:
    fields = command.ext_fields
    signature = signature_of("secret-of-shop", signed_content(fields, command.body))
    return (fields.get("AccessKey"), fields.get("SecurityToken")) == ("shop", "token-1") and (
        fields.get("Signature") == signature
    )


async def test_every_request_is_signed_and_no_answer(broker: FakeBroker) -> None:
    client = RemotingClient(RemotingClientConfig(keys=KEYS))
    client.greeting = lambda addr: RemotingCommand.request(34, {}, b"heartbeat")
    client.processors[40] = answered
    try:
        await client.invoke(broker.addr, RemotingCommand.request(105, {"topic": "T"}, b"body"))
        shared = {"topic": "T"}
        many = [RemotingCommand.request(105, shared, b"%d" % number) for number in range(3)]
        await client.invoke_many(broker.addr, many)
        await client.invoke_oneway(broker.addr, RemotingCommand.request(15, {"a": "b"}, oneway=True))
        broker.push(RemotingCommand.request(40, {"consumerGroup": "g"}))
        await wait_until(lambda: bool(broker.responses) and 15 in broker.codes())
    finally:
        await client.close()
    assert broker.codes() == [34, 105, 105, 105, 105, 15]
    assert all(is_signed(command) for command in broker.received)
    assert broker.responses[0].ext_fields == {}
    assert shared == {"topic": "T"}


async def answered(command: RemotingCommand, addr: str) -> RemotingCommand:
    return command.response(0)


async def test_without_keys_there_is_no_signature(broker: FakeBroker) -> None:
    client = RemotingClient()
    try:
        await client.invoke(broker.addr, RemotingCommand.request(105, {"topic": "T"}))
    finally:
        await client.close()
    assert broker.received[0].ext_fields == {"topic": "T"}


async def test_the_example_of_the_documentation_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = BrokerProcess(tmp_path / "store").start()
    try:
        await example("consumers.md", "Access keys (ACL)")(broker.namesrv, "secret-of-shop")
    finally:
        broker.stop()
    assert capsys.readouterr().out == "SEND_OK\n"


@pytest.mark.parametrize(
    "command", [["demo"], ["run", "module:handler", "--group", "g", "--topic", "t"]], ids=["demo", "run"]
)
def test_the_commands_take_keys_from_files(command: list[str], tmp_path: Path) -> None:
    secret, token, empty = tmp_path / "secret", tmp_path / "token", tmp_path / "empty"
    secret.write_text("secret-of-shop\nmore\n")
    token.write_text("token-1")
    empty.write_text("\n")
    assert keys_of(parse_arguments(command, "x:1")) is None
    options = ["--access-key", "shop", "--secret-key-file", str(secret)]
    assert keys_of(parse_arguments([*command, *options], "x:1")) == AccessKeys("shop", "secret-of-shop")
    options += ["--security-token-file", str(token)]
    assert keys_of(parse_arguments([*command, *options], "x:1")) == KEYS
    for wrong, why in (
        (["--access-key", "shop"], "given together"),
        (["--secret-key-file", str(secret)], "given together"),
        (["--access-key", "shop", "--secret-key-file", str(empty)], "first line is empty"),
        (["--access-key", "shop", "--secret-key-file", "/nowhere"], "cannot read /nowhere"),
    ):
        with pytest.raises(InvalidClientConfig, match=why):
            keys_of(parse_arguments([*command, *wrong], "x:1"))
