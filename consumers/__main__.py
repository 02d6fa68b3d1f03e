"""`python -m consumers run module:handler …` consumes with a handler of yours; `… demo` makes demo traffic.

`… produce`, `… consume` and `… tail` send and print messages in shells (consumers.commands).

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
from pathlib import Path
from typing import BinaryIO

from brokerd.remoting.message.names import InvalidName
from brokerd.remoting.signature import AccessKeys
from consumers.client.tls import tls_context
from consumers.commands import FAILED, INTERRUPTED, add_produce, add_reading, consume, produce, tail
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
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger("consumers")

FROM_WHERE = {"last": ConsumeFromWhere.LAST_OFFSET, "first": ConsumeFromWhere.FIRST_OFFSET}


def parse_arguments(arguments: Sequence[str], namesrv_default: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m consumers", description="Run RocketMQ consumers.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="consume messages with your own handler")
    run.add_argument("handler", help="module:name of a function (messages, context) -> ConsumeStatus")
    run.add_argument("--group", required=True, help="consumer group")
    run.add_argument(
        "--topic",
        action="append",
        required=True,
        metavar="TOPIC[:TAGS]",
        help="topic and tags; may be repeated",
    )
    run.add_argument("--orderly", action="store_true", help="one batch of a queue at a time, in order")
    run.add_argument("--broadcasting", action="store_true", help="every member gets every message")
    run.add_argument(
        "--from",
        dest="from_where",
        choices=sorted(FROM_WHERE),
        default="last",
        help="where a new group begins (default: last)",
    )
    run.add_argument("--concurrency", type=int, default=20, help="messages handled at once (default: 20)")
    run.add_argument(
        "--batch-size", type=int, default=1, help="messages per call of the handler (default: 1)"
    )
    run.add_argument(
        "--max-reconsume-times",
        type=int,
        default=-1,
        help="retries before a message becomes a dead letter; -1: 16, or without end in order (default: -1)",
    )
    demo = commands.add_parser("demo", help="create demo topics and run demo traffic: lag, dead letters")
    demo.add_argument("--speed", type=float, default=1.0, help="factor for all message rates")
    producing = commands.add_parser("produce", help="send messages from arguments or standard input")
    add_produce(producing)
    consuming = commands.add_parser("consume", help="print a group's messages and commit them")
    consuming.add_argument("--group", required=True, help="consumer group")
    add_reading(consuming)
    tailing = commands.add_parser("tail", help="print messages without a group")
    add_reading(tailing)
    demo.set_defaults(namespace="")  # it makes its topics and groups by their names
    for command in (run, producing, consuming, tailing):
        command.add_argument(
            "--namespace",
            default="",
            metavar="NAME",
            help="prefix of topics and groups, as Java's clients have",
        )
    for command in (run, demo, producing, consuming, tailing):
        command.add_argument(
            "--namesrv",
            default=namesrv_default,
            help="name servers, HOST:PORT[;HOST:PORT] (default: %(default)s)",
        )
        level = "INFO" if command in (run, demo) else "ERROR"
        command.add_argument("--log-level", default=level, help=f"default: {level}")
        _add_connection(command)
    return parser.parse_args(arguments)


def _add_connection(command: argparse.ArgumentParser) -> None:
    tls = command.add_argument_group("TLS")
    tls.add_argument("--tls", action="store_true", help="connect with TLS; each option below implies it")
    tls.add_argument(
        "--tls-ca", metavar="FILE", help="authorities that signed the brokers' certificates (PEM)"
    )
    tls.add_argument("--tls-any-host", action="store_true", help="accept a certificate for another address")
    tls.add_argument("--tls-certificate", metavar="FILE", help="certificate of this client (PEM)")
    tls.add_argument(
        "--tls-key", metavar="FILE", help="its private key, unless the certificate's file has it"
    )
    keys = command.add_argument_group("ACL")
    keys.add_argument(
        "--access-key", metavar="KEY", help="sign requests with this access key, or user of 5.x"
    )
    # Files: other users of this machine can read the arguments of a process.
    keys.add_argument("--secret-key-file", metavar="FILE", help="file whose first line is its secret key")
    keys.add_argument(
        "--security-token-file", metavar="FILE", help="file whose first line is a security token"
    )


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


def keys_of(arguments: argparse.Namespace) -> AccessKeys | None:
    """Return the keys to sign with, None without any. Raises InvalidClientConfig."""
    files = (arguments.secret_key_file, arguments.security_token_file)
    if not arguments.access_key and not any(files):
        return None
    if not arguments.access_key or not arguments.secret_key_file:
        raise InvalidClientConfig("--access-key and --secret-key-file are given together")
    secret, token = (_first_line(file) if file else "" for file in files)
    return AccessKeys(arguments.access_key, secret, token)


def _first_line(file: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidClientConfig(f"cannot read {file}: {error}") from error
    if not lines or not lines[0].strip():
        raise InvalidClientConfig(f"{file}: its first line is empty")
    return lines[0].strip()


def client_config_of(arguments: argparse.Namespace) -> ClientConfig:
    """Return how the arguments connect. Raises InvalidClientConfig."""
    remoting = RemotingClientConfig(ssl_context=tls_of(arguments), keys=keys_of(arguments))
    return ClientConfig(namespace=arguments.namespace, remoting=remoting)


async def run_consumer(arguments: argparse.Namespace, stop: asyncio.Event) -> None:
    config = PushConsumerConfig(
        message_model=MessageModel.BROADCASTING if arguments.broadcasting else MessageModel.CLUSTERING,
        consume_from_where=FROM_WHERE[arguments.from_where],
        consume_concurrency=arguments.concurrency,
        consume_message_batch_max_size=arguments.batch_size,
        max_reconsume_times=arguments.max_reconsume_times,
        client=client_config_of(arguments),
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
    demo = Demo(arguments.namesrv, speed=arguments.speed, client=client_config_of(arguments))
    await demo.run(stop)


ShellCommand = Callable[[argparse.Namespace, ClientConfig, asyncio.Event, BinaryIO], Awaitable[int]]
SHELL_COMMANDS: dict[str, ShellCommand] = {"produce": produce, "consume": consume, "tail": tail}


async def run_command(arguments: argparse.Namespace, stop: asyncio.Event) -> int:
    """Return the exit code; an error is one sentence on standard error."""
    try:
        if arguments.command in SHELL_COMMANDS:
            command = SHELL_COMMANDS[arguments.command]
            return await command(arguments, client_config_of(arguments), stop, sys.stdout.buffer)
        await {"run": run_consumer, "demo": run_demo}[arguments.command](arguments, stop)
    except InvalidClientConfig:
        raise
    except (MQClientError, MQBrokerError) as error:
        if arguments.command not in SHELL_COMMANDS:
            raise
        report(arguments, error)
        return FAILED
    return 0


def report(arguments: argparse.Namespace, error: Exception) -> None:
    """Report an error without a traceback: shells get one line."""
    if arguments.command in SHELL_COMMANDS:
        sys.stderr.write(f"{arguments.command}: {str(error).splitlines()[0]}\n")
    else:
        logger.error("%s", error)


async def until_signal(work: Callable[[asyncio.Event], Awaitable[int]]) -> int:
    """SIGTERM and the first Ctrl-C request an end; the second Ctrl-C ends at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask(number: signal.Signals) -> None:
        logger.info("stopping on %s", number.name)
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    return await work(stop)


def main(argv: Sequence[str], namesrv_default: str) -> int:
    arguments = parse_arguments(argv, namesrv_default)
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(level=arguments.log_level.upper(), format=form)
    sys.path.insert(0, os.getcwd())  # a handler lives where the command is called
    try:
        return asyncio.run(until_signal(lambda stop: run_command(arguments, stop)))
    except (InvalidClientConfig, InvalidName) as error:
        report(arguments, error)
        return 2
    except BrokenPipeError:
        # The reader of our output has gone, as head does: an end like any other, without words at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
