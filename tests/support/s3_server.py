"""A real S3 server (moto) on a port of this machine, with faults on order: throttled, cut off, its answers lost.

Between client and server stands a WSGI layer that counts requests and does what a test asked for, so that the client's
own retries, signatures and multipart uploads are the product's.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

BUCKET = "history"
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "tidemark",
    "AWS_SECRET_ACCESS_KEY": "only-for-tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
)
WSGI = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]


@dataclass
class Fault:
    """What happens to requests of a kind (`PUT`, `PART`, `COMPLETE`, `GET`, `HEAD`, `COPY`, `DELETE`), `times` of them.

    `throttle`: 503 without a look; `lost`: done, and the connection ends without an answer; `deny`: 403.
    """

    kind: str
    how: str
    times: int = 10**9
    key: str = ""  # part of the object's name


@dataclass
class S3Server:
    """The server; `environ` is what a process needs to reach it."""

    url: str = f"s3://{BUCKET}/tidemark"
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    server: BaseWSGIServer | None = None

    def start(self) -> S3Server:
        # Here, not above: importing it takes a second of every test process.
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        application: WSGI = DomainDispatcherApplication(create_backend_app)
        self.server = make_server(
            "127.0.0.1", 0, self._with_faults(application), threaded=True, request_handler=_Silent
        )
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.environ = {**ACCOUNT, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.server.port}"}
        return self

    def stop(self) -> None:
        assert self.server is not None
        self.server.shutdown()
        self.server.server_close()

    def clear(self) -> None:
        """Let there be one empty bucket and no fault."""
        import boto3

        self.faults.clear()
        client = boto3.client("s3", endpoint_url=self.environ["AWS_ENDPOINT_URL_S3"])
        if any(bucket["Name"] == BUCKET for bucket in client.list_buckets()["Buckets"]):
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
                for found in page.get("Contents", []):
                    client.delete_object(Bucket=BUCKET, Key=found["Key"])
        else:
            client.create_bucket(Bucket=BUCKET)
        self.seen.clear()

    @contextmanager
    def fault(self, kind: str, how: str, times: int = 10**9, key: str = "") -> Iterator[Fault]:
        """Let requests fail meanwhile."""
        fault = Fault(kind, how, times, key)
        self.faults.append(fault)
        try:
            yield fault
        finally:
            self.faults.remove(fault)

    def count(self, kind: str, key: str = "") -> int:
        return sum(one == kind and key in path for one, path in self.seen)

    def _with_faults(self, application: WSGI) -> WSGI:
        def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            kind, path = kind_of(environ), environ["PATH_INFO"]
            self.seen.append((kind, path))
            fault = next(
                (one for one in self.faults if one.kind == kind and one.times > 0 and one.key in path), None
            )
            if fault is None:
                return application(environ, start)
            fault.times -= 1
            if fault.how == "lost":
                body = application(environ, lambda *_: lambda data: None)  # type: ignore[arg-type,return-value]
                b"".join(body)
                raise ConnectionResetError("the answer is lost")
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status = "503 Slow Down" if fault.how == "throttle" else "403 Forbidden"
            start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(SLOW_DOWN)))])
            return [SLOW_DOWN if fault.how == "throttle" else SLOW_DOWN.replace(b"SlowDown", b"AccessDenied")]

        return answer


def kind_of(environ: WSGIEnvironment) -> str:
    """What a request does, by its method and query."""
    method = str(environ["REQUEST_METHOD"])
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if method == "PUT":
        if "HTTP_X_AMZ_COPY_SOURCE" in environ:
            return "COPY"
        return "PART" if "partNumber" in query else "PUT"
    if method == "POST":
        return "BEGIN" if "uploads" in query else "COMPLETE" if "uploadId" in query else "POST"
    return method


class _Silent(WSGIRequestHandler):
    """Says nothing about requests, and ends the connection when an answer is lost."""

    def log(self, *_: Any) -> None:
        pass

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Have variables in the environment of this process meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
