"""Signatures of every form that clients send, against a plain twin and against those of Java clients."""

from __future__ import annotations

import base64
import hashlib
import random

import pytest

from brokerd.acl.verification import is_signed_with
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import AccessKeys, sign
from tests.brokerd.remoting.golden_frames import golden_frames

SECRETS = {"rocketmq2": "12345678", "alice": "alice-secret", "alice-key": "alice-secret"}
SIGNED = [
    frame
    for frame in golden_frames()
    if frame.is_request and (frame.header.get("extFields") or {}).get("AccessKey") in SECRETS
]
FORGED = {"5.3.3/34-heart_beat-14.request.bin"}  # with a wrong secret, on purpose


def hmac_sha1(key: bytes, content: bytes) -> bytes:
    """RFC 2104 by hand."""
    key = (hashlib.sha1(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha1(bytes(byte ^ 0x36 for byte in key) + content).digest()
    return hashlib.sha1(bytes(byte ^ 0x5C for byte in key) + inner).digest()


def twin(fields: dict[str, str], body: bytes, secret: str) -> str:
    """The signature as AclUtils makes it: a sorted map's values one behind another, then the body."""
    content = b""
    for key in sorted(fields):
        if key != "Signature":
            content += fields[key].encode()
    return base64.b64encode(hmac_sha1(secret.encode(), content + body)).decode()


@pytest.mark.parametrize("frame", SIGNED, ids=lambda frame: frame.name)
def test_it_accepts_what_java_clients_signed(frame: object) -> None:
    command = frame.command()  # type: ignore[attr-defined]
    is_forged = frame.name in FORGED  # type: ignore[attr-defined]
    assert is_signed_with(SECRETS[command.ext_fields["AccessKey"]], command) is not is_forged


def test_it_agrees_with_the_twin() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        text = "aZ09_%|- =\u00e9\u4e2d\U0001f600"
        words = ["".join(chance.choices(text, k=chance.randrange(12))) for _ in range(20)]
        fields = {word: chance.choice(words) for word in chance.sample(words, 6)} | {
            "AccessKey": chance.choice(words)
        }
        secret = "".join(chance.choices(text, k=chance.randrange(1, 90)))
        body = chance.randbytes(chance.randrange(40))
        right = twin(fields, body, secret)
        command = RemotingCommand.request(10, {**fields, "Signature": right}, body)
        assert is_signed_with(secret, command), seed
        assert not is_signed_with(secret + "x", command), seed
        command.body += b"!"
        assert not is_signed_with(secret, command), seed


@pytest.mark.parametrize("signature", [None, "", "x", "msA2HLu5rmWfLoIZzBCi0WKUq2p=", "\u00e9"])
def test_it_refuses_other_signatures(signature: str | None) -> None:
    fields = {"AccessKey": "rocketmq2", "topic": "T"}
    if signature is not None:
        fields["Signature"] = signature
    assert not is_signed_with("12345678", RemotingCommand.request(10, fields))


@pytest.mark.parametrize("unsigned", ["_UNIQUE_KEY_QUERY", "SecurityToken"])
def test_a_field_that_old_clients_do_not_sign_may_be_added(unsigned: str) -> None:
    command = RemotingCommand.request(12, {"topic": "T"})
    sign(command, AccessKeys("rocketmq2", "12345678"))
    command.ext_fields[unsigned] = "true"
    assert is_signed_with("12345678", command)
    command.ext_fields["topic"] = "U"
    assert not is_signed_with("12345678", command)
