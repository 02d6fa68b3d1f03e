from __future__ import annotations

import asyncio
import time
from unittest import mock

import pytest

from brokerd.remoting.command import RemotingCommand
from consumers.client.remoting_client import RemotingClient, parse_addr
from consumers.config import RemotingClientConfig
from consumers.errors import BrokerUnavailable, ClientClosed, RemotingTimeout, TooManyRequests
from tests.consumers.fake_broker import FakeBroker, pass_deadlines, wait_until

ECHO = 105


@pytest.fixture
async def broker():
    async with FakeBroker() as fake:
        fake.answers[ECHO] = lambda command: command.response(0, body=command.body)
        yield fake


@pytest.fixture
async def client():
    remoting = RemotingClient(RemotingClientConfig(reconnect_delay_min_ms=40, reconnect_delay_max_ms=80))
    yield remoting
    await remoting.close()


def request(body: bytes = b"", code: int = ECHO) -> RemotingCommand:
    return RemotingCommand.request(code, {}, body)


async def test_it_works(broker, client):
    response = await client.invoke(broker.addr, request(b"hello"))
    assert (response.code, response.body) == (0, b"hello")


async def test_it_shares_one_connection(broker, client):
    await asyncio.gather(*(client.invoke(broker.addr, request()) for _ in range(20)))
    assert len(broker.writers) == 1


async def test_it_matches_answers_that_come_in_another_order(broker, client):
    async def slow_first(command: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(0.05 if command.body == b"first" else 0)
        return command.response(0, body=command.body)

    broker.answers[ECHO] = slow_first
    first, second = await asyncio.gather(
        client.invoke(broker.addr, request(b"first")), client.invoke(broker.addr, request(b"second"))
    )
    assert (first.body, second.body) == (b"first", b"second")


async def test_it_times_out_when_the_broker_is_slow(broker, client):
    broker.answers[ECHO] = lambda command: None
    with pytest.raises(RemotingTimeout) as caught:
        await client.invoke(broker.addr, request(), timeout_ms=50)
    assert (caught.value.addr, caught.value.code, caught.value.timeout_ms) == (broker.addr, ECHO, 50)
    assert caught.value.retriable


async def test_each_request_has_its_own_deadline(broker, client):
    broker.answers[ECHO] = lambda command: None
    calls = [client.invoke(broker.addr, request(), timeout_ms) for timeout_ms in (60_000, 80, 40)]
    longest, *others = [asyncio.create_task(call) for call in calls]
    errors = await asyncio.gather(*others, return_exceptions=True)
    assert [error.timeout_ms for error in errors] == [80, 40]
    assert not longest.done()
    assert "1 requests waiting" in repr(client)
    longest.cancel()


async def test_it_sends_nothing_after_the_time_that_the_caller_gave(broker, client):
    seen = []
    broker.answers[ECHO] = lambda command: seen.append(command.body) or command.response(0)
    await client.invoke(broker.addr, request(b"in time"), send_until_s=time.monotonic() + 60)
    with pytest.raises(RemotingTimeout):
        await client.invoke(broker.addr, request(b"late"), send_until_s=time.monotonic())
    await client.invoke(broker.addr, request(b"the next"))
    assert seen == [b"in time", b"the next"]


async def test_it_drops_an_answer_that_comes_too_late(broker, client):
    async def late(command: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(0.1)
        return command.response(0, body=b"late")

    broker.answers[ECHO] = late
    with pytest.raises(RemotingTimeout):
        await client.invoke(broker.addr, request(), timeout_ms=30)
    await asyncio.sleep(0.1)
    broker.answers[ECHO] = lambda command: command.response(0, body=b"in time")
    assert (await client.invoke(broker.addr, request())).body == b"in time"
    assert len(broker.writers) == 1


async def test_it_gives_up_a_connection_that_is_silent(broker, client, monkeypatch):
    monkeypatch.setattr("consumers.client.channel.SILENT_CONNECTION_S", 0.001)
    broker.answers[ECHO] = lambda command: None
    with pytest.raises(RemotingTimeout):
        await client.invoke(broker.addr, request(), timeout_ms=50)
    assert client.connected_addrs() == []


@pytest.mark.parametrize(
    "frame",
    [
        b"\x7f\xff\xff\xff",  # longer than any frame may be
        b"\x00\x00\x00\x08\x00\x00\xff\xff{}{}",  # header longer than the frame
        b"\x00\x00\x00\x08\x00\x00\x00\x04{no}",  # header is no JSON
    ],
)
async def test_it_closes_the_connection_after_a_malformed_frame(broker, client, frame):
    await client.invoke(broker.addr, request())
    broker.answers[ECHO] = lambda command: broker.write_raw(frame)
    with pytest.raises(BrokerUnavailable, match="bad frame"):
        await client.invoke(broker.addr, request())
    broker.answers[ECHO] = lambda command: command.response(0, body=b"again")
    assert (await client.invoke(broker.addr, request())).body == b"again"


async def test_it_fails_what_waits_when_the_connection_breaks_in_mid_frame(broker, client):
    def half_an_answer(command: RemotingCommand) -> None:
        broker.write_raw(command.response(0, body=b"x" * 1000).encode()[:500])
        broker.writers[-1].close()

    broker.answers[ECHO] = half_an_answer
    outcomes = await asyncio.gather(
        client.invoke(broker.addr, request()),
        client.invoke(broker.addr, request()),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [BrokerUnavailable, BrokerUnavailable]


async def test_it_connects_again_after_the_broker_was_away(client):
    async with FakeBroker() as first:
        first.answers[ECHO] = lambda command: command.response(0)
        await client.invoke(first.addr, request())
    await wait_until(lambda: client.connected_addrs() == [])
    with pytest.raises(BrokerUnavailable):
        await client.invoke(first.addr, request())
    async with FakeBroker(first.port) as second:
        second.answers[ECHO] = lambda command: command.response(0, body=b"second")
        with pytest.raises(BrokerUnavailable):  # within the back-off delay nobody even tries
            await client.invoke(first.addr, request())
        assert second.writers == []
        await asyncio.sleep(0.05)
        assert (await client.invoke(first.addr, request())).body == b"second"


async def test_it_says_which_address_cannot_be_reached_and_why(client):
    with pytest.raises(BrokerUnavailable) as caught:
        await client.invoke("127.0.0.1:1", request())
    assert caught.value.addr == "127.0.0.1:1"
    assert "127.0.0.1:1 is not available: cannot connect" in str(caught.value)


@pytest.mark.parametrize("addr", ["", "host", "host:", "host:port", ":9876", "host:0", "host:70000"])
def test_it_refuses_an_address_that_is_none(addr):
    with pytest.raises(BrokerUnavailable, match="not host:port"):
        parse_addr(addr)


def test_it_reads_addresses():
    assert parse_addr("broker-a:10911") == ("broker-a", 10911)
    assert parse_addr("[::1]:10911") == ("::1", 10911)


async def test_it_limits_requests_that_wait(broker):
    remoting = RemotingClient(RemotingClientConfig(outstanding_requests_max=2))
    broker.answers[ECHO] = lambda command: None
    waiting = [asyncio.create_task(remoting.invoke(broker.addr, request(), 1_000)) for _ in range(2)]
    await wait_until(lambda: len(broker.received) == 2)
    with pytest.raises(TooManyRequests):
        await remoting.invoke(broker.addr, request())
    await remoting.close()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_it_forgets_a_request_that_was_cancelled(broker, client):
    broker.answers[ECHO] = lambda command: None
    task = asyncio.create_task(client.invoke(broker.addr, request()))
    await wait_until(lambda: len(broker.received) == 1)
    assert "1 requests waiting" in repr(client)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "0 requests waiting" in repr(client)


async def test_it_sends_many_and_keeps_their_order(broker, client):
    answers = await client.invoke_many(broker.addr, [request(b"%d" % n) for n in range(300)])
    assert [answer.body for answer in answers] == [b"%d" % n for n in range(300)]
    assert len(broker.writers) == 1


async def test_it_names_those_of_many_that_got_no_answer(broker, client, monkeypatch):
    broker.answers[ECHO] = lambda command: None if command.body == b"1" else command.response(0)
    requests = [request(b"0"), request(b"1"), request(b"2")]
    asking = asyncio.create_task(client.invoke_many(broker.addr, requests, timeout_ms=30_000))
    await wait_until(lambda: len(broker.received) == 3)
    await broker.until_answers_are_read()
    pass_deadlines(monkeypatch)
    answers = await asking
    assert [type(answer) for answer in answers] == [RemotingCommand, RemotingTimeout, RemotingCommand]
    assert "0 requests waiting" in repr(client)


async def test_it_returns_the_error_for_each_of_many(client):
    answers = await client.invoke_many("127.0.0.1:1", [request(), request()])
    assert [type(answer) for answer in answers] == [BrokerUnavailable, BrokerUnavailable]


async def test_requests_of_one_round_are_one_write(broker, client, monkeypatch):
    await client.invoke(broker.addr, request())
    writes = []
    (channel,) = client._channels.values()
    write = channel._transport.write
    monkeypatch.setattr(
        channel, "_transport", mock.Mock(write=lambda data: writes.append(len(data)) or write(data))
    )
    await asyncio.gather(*(client.invoke(broker.addr, request(b"x")) for _ in range(20)))
    assert len(writes) == 1
    # More than is gathered is not kept for the end of the round.
    large = RemotingCommand.request(ECHO, {}, b"x" * 40_000, oneway=True)
    for _ in range(4):
        await client.invoke_oneway(broker.addr, large)
    assert [size > 80_000 for size in writes[1:]] == [True, True]


async def test_a_oneway_request_is_written_before_the_client_closes(broker, client):
    await client.invoke(broker.addr, request())
    await client.invoke_oneway(broker.addr, RemotingCommand.request(ECHO, {}, b"last", oneway=True))
    await client.close()
    await wait_until(lambda: [command.body for command in broker.received[1:]] == [b"last"])


async def test_it_does_not_wait_for_an_answer_to_a_oneway(broker, client):
    await client.invoke_oneway(broker.addr, RemotingCommand.request(ECHO, {}, b"x", oneway=True))
    await wait_until(lambda: broker.codes() == [ECHO])
    assert broker.received[0].is_oneway


async def test_it_answers_requests_of_the_broker(broker, client):
    async def double(command: RemotingCommand, addr: str) -> RemotingCommand:
        return command.response(0, body=command.body * 2)

    client.processors[307] = double
    await client.invoke(broker.addr, request())
    broker.push(RemotingCommand(code=307, opaque=77, body=b"ab"))
    await wait_until(lambda: len(broker.responses) == 1)
    assert (broker.responses[0].opaque, broker.responses[0].code, broker.responses[0].body) == (
        77,
        0,
        b"abab",
    )


async def test_it_refuses_requests_it_does_not_know(broker, client):
    await client.invoke(broker.addr, request())
    broker.push(RemotingCommand(code=999, opaque=78))
    await wait_until(lambda: len(broker.responses) == 1)
    assert (broker.responses[0].opaque, broker.responses[0].code) == (78, 3)


async def test_it_answers_with_the_error_of_a_processor(broker, client):
    async def fail(command: RemotingCommand, addr: str) -> RemotingCommand:
        raise KeyError("no such thing")

    client.processors[307] = fail
    await client.invoke(broker.addr, request())
    broker.push(RemotingCommand(code=307, opaque=79))
    await wait_until(lambda: len(broker.responses) == 1)
    assert (broker.responses[0].code, broker.responses[0].remark) == (1, "KeyError: 'no such thing'")


async def test_it_does_not_answer_a_oneway_request_of_the_broker(broker, client):
    seen = []

    async def note(command: RemotingCommand, addr: str) -> None:
        seen.append((command.ext_fields["consumerGroup"], addr))

    client.processors[40] = note
    await client.invoke(broker.addr, request())
    broker.push(RemotingCommand.request(40, {"consumerGroup": "billing"}, oneway=True))
    broker.push(RemotingCommand.request(41, {}, oneway=True))
    await wait_until(lambda: len(seen) == 1)
    await client.invoke(broker.addr, request())
    assert seen == [("billing", broker.addr)]
    assert broker.responses == []


async def test_it_greets_before_the_first_request(broker, client):
    client.greeting = lambda addr: RemotingCommand.request(34, {}, b"{}")
    await asyncio.gather(client.invoke(broker.addr, request()), client.invoke(broker.addr, request()))
    assert broker.codes() == [34, ECHO, ECHO]


async def test_it_fails_what_waits_when_it_is_closed(broker):
    remoting = RemotingClient()
    broker.answers[ECHO] = lambda command: None
    task = asyncio.create_task(remoting.invoke(broker.addr, request()))
    await wait_until(lambda: len(broker.received) == 1)
    await remoting.close()
    with pytest.raises(BrokerUnavailable, match="closing"):
        await task
    with pytest.raises(ClientClosed):
        await remoting.invoke(broker.addr, request())
