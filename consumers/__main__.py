"""`python -m consumers run module:handler …` consumes with a handler of yours; `… demo` makes demo traffic.

The one place of this package that reads the environment (NAMESRV_ADDR, as RocketMQ's own tools do) and
signals.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable, Sequence

from consumers.client.tls import tls_context
from consumers.config import (
    ClientConfig,
    ConsumeFromWhere,
    InvalidClientConfig,
    MessageModel,
    PushConsumerConfig,
    RemotingClientConfig,
)
from consumers.consumer.consume_message import Handler
from consumers.consumer.push_consumer import PushConsumer
from consumers.demo.traffic import Demo

logger = logging.getLogger("consumers")

FROM_WHERE = {"last": ConsumeFromWhere.LAST_OFFSET, "first": ConsumeFromWhere.FIRST_OFFSET}


def parse_arguments(arguments: Sequence[str], namesrv_default: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m consumers", description="RocketMQ consumers")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="consume with a handler of yours")
    run.add_argument("handler", help="module:name of a function (messages, context) -> ConsumeStatus")
    run.add_argument("--group", required=True)
    run.add_argument(
        "--topic", action="append", required=True, metavar="TOPIC[:TAGS]", help="may be given several times"
    )
    run.add_argument("--orderly", action="store_true", help="one batch of a queue at a time, in order")
    run.add_argument("--broadcasting", action="store_true", help="every member gets every message")
    run.add_argument("--from", dest="from_where", choices=sorted(FROM_WHERE), default="last")
    run.add_argument("--concurrency", type=int, default=20)
    run.add_argument("--batch-size", type=int, default=1)
    run.add_argument("--max-reconsume-times", type=int, default=-1)
    run.add_argument("--tls", action="store_true", help="connect by TLS; so does each option below")
    run.add_argument("--tls-ca", metavar="FILE", help="authorities of the brokers' certificates (PEM)")
    run.add_argument("--tls-any-host", action="store_true", help="the certificate need not name the address")
    run.add_argument("--tls-certificate", metavar="FILE", help="certificate of this client (PEM)")
    run.add_argument(
        "--tls-key", metavar="FILE", help="its key, where the certificate's file does not have it"
    )
    demo = commands.add_parser("demo", help="demo traffic: topics, groups, lag, dead letters")
    demo.add_argument("--speed", type=float, default=1.0, help="factor on all message rates")
    for command in (run, demo):
        command.add_argument("--namesrv", default=namesrv_default, help="HOST:PORT[;HOST:PORT]")
        command.add_argument("--log-level", default="INFO")
    return parser.parse_args(arguments)


def load_handler(name: str) -> Handler:
    """`package.module:function`. Raises InvalidClientConfig."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InvalidClientConfig(f"{name!r} is not module:function")
    try:
        handler = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidClientConfig(f"cannot load {name}: {error}") from error
    if not callable(handler):
        raise InvalidClientConfig(f"{name} is not callable")
    return handler  # type: ignore[no-any-return]


def subscriptions_of(topics: Sequence[str]) -> dict[str, str]:
    """`orders` or `orders:paid||shipped` → topic to expression."""
    pairs = (topic.partition(":") for topic in topics)
    return {name: expression or "*" for name, _, expression in pairs}


def tls_of(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    """Return what the options of TLS make, None without any. Raises InvalidClientConfig."""
    files = (arguments.tls_ca, arguments.tls_certificate, arguments.tls_key)
    if not (arguments.tls or arguments.tls_any_host or any(files)):
        return None
    return tls_context(
        arguments.tls_ca,
        check_host_name=not arguments.tls_any_host,
        certificate_file=arguments.tls_certificate,
        key_file=arguments.tls_key,
    )


async def run_consumer(arguments: argparse.Namespace, stop: asyncio.Event) -> None:
    config = PushConsumerConfig(
        message_model=MessageModel.BROADCASTING if arguments.broadcasting else MessageModel.CLUSTERING,
        consume_from_where=FROM_WHERE[arguments.from_where],
        consume_concurrency=arguments.concurrency,
        consume_message_batch_max_size=arguments.batch_size,
        max_reconsume_times=arguments.max_reconsume_times,
        client=ClientConfig(remoting=RemotingClientConfig(ssl_context=tls_of(arguments))),
    )
    consumer = PushConsumer(
        arguments.group,
        arguments.namesrv,
        load_handler(arguments.handler),
        subscriptions_of(arguments.topic),
        orderly=arguments.orderly,
        config=config,
    )
    async with consumer:
        await stop.wait()


async def run_demo(arguments: argparse.Namespace, stop: asyncio.Event) -> None:
    await Demo(arguments.namesrv, speed=arguments.speed).run(stop)


async def until_signal(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """SIGTERM and the first Ctrl-C request an end; the second Ctrl-C ends at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask(number: signal.Signals) -> None:
        logger.info("stopping on %s", number.name)
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    await work(stop)


def main(argv: Sequence[str], namesrv_default: str) -> int:
    arguments = parse_arguments(argv, namesrv_default)
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(level=arguments.log_level.upper(), format=form)
    sys.path.insert(0, os.getcwd())  # a handler lives where the command is called
    command = {"run": run_consumer, "demo": run_demo}[arguments.command]
    try:
        asyncio.run(until_signal(lambda stop: command(arguments, stop)))
    except InvalidClientConfig as error:
        logger.error("%s", error)  # noqa: TRY400 - a wrong argument needs no traceback
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
