"""Signatures against those that Java clients of 4.9.7 and 5.3.3, and their brokers, have made."""

from __future__ import annotations

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    AccessKeys,
    sign,
    signature_of,
    signed_content,
)
from tests.brokerd.remoting.golden_frames import GoldenFrame, golden_frames

SECRETS = {"rocketmq2": "12345678", "alice": "alice-secret", "alice-key": "alice-secret"}
FORGED = "5.3.3/34-heart_beat-14.request.bin"  # with a wrong secret, on purpose
SIGNED = [
    frame
    for frame in golden_frames()
    if frame.is_request
    and frame.header.get("extFields", {}).get(ACCESS_KEY) in SECRETS
    and frame.name != FORGED
]


@pytest.mark.parametrize("frame", SIGNED, ids=lambda frame: frame.name)
def test_it_is_what_the_java_client_signed(frame: GoldenFrame) -> None:
    command = frame.command()
    theirs = command.ext_fields.pop(SIGNATURE)
    access_key = command.ext_fields[ACCESS_KEY]
    keys = AccessKeys(access_key, SECRETS[access_key], command.ext_fields.get(SECURITY_TOKEN, ""))
    sign(command, keys)
    assert command.ext_fields[SIGNATURE] == theirs


def test_there_are_signed_frames_of_every_form() -> None:
    forms = {
        (frame.version, frame.manifest["serialize"], SECURITY_TOKEN in frame.header["extFields"])
        for frame in SIGNED
    }
    assert {form[0] for form in forms} == {"4.9.7", "5.3.3"}
    assert {form[1:] for form in forms} >= {("json", False), ("json", True), ("rocketmq", False)}
    assert any(frame.command().body for frame in SIGNED)


@pytest.mark.parametrize(
    ("body", "signature"), [(b"", "msA2HLu5rmWfLoIZzBCi0WKUq2o="), (b"{}", "8GUJ4rxoEozx0qdt4DCR2YIbnpY=")]
)
def test_it_covers_fields_and_body(body: bytes, signature: str) -> None:
    assert (
        signature_of("12345678", signed_content({"topic": "T", "AccessKey": "rocketmq2"}, body)) == signature
    )


def test_capital_letters_come_first_and_a_field_may_be_left_out() -> None:
    fields = {"a": "3", "_UNIQUE_KEY_QUERY": "2", "Z": "1", "Signature": "x"}
    assert signed_content(fields, b"!") == b"123!"
    assert signed_content(fields, b"!", ["_UNIQUE_KEY_QUERY"]) == b"13!"


def test_signing_again_replaces_the_signature() -> None:
    shared = {"topic": "T"}
    command = RemotingCommand.request(34, shared)
    for secret in ("another-secret", "12345678"):
        sign(command, AccessKeys("rocketmq2", secret))
    assert command.ext_fields == {
        "topic": "T",
        "AccessKey": "rocketmq2",
        "Signature": "msA2HLu5rmWfLoIZzBCi0WKUq2o=",
    }
    assert shared == {"topic": "T"}


def test_secrets_are_not_printed() -> None:
    assert repr(AccessKeys("rocketmq2", "12345678", "tok-1")) == "AccessKeys(access_key='rocketmq2')"
