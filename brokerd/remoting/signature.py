"""Signatures of requests by an access key, which 4.x and 5.x brokers verify alike (protocol section 1.10).

The content is the values of all ext fields but the signature itself, ordered by their keys, without separators, and
then the body; the signature is Base64(HMAC-SHA1(secret key, content)). As AclUtils and AclClientRPCHook.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from brokerd.remoting.command import RemotingCommand

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"


@dataclass(frozen=True, slots=True)
class AccessKeys:
    """What a client signs with (SessionCredentials); 5.x: user name and password. Only the first is ever printed."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


def signed_content(ext_fields: Mapping[str, str], body: bytes, left_out: Collection[str] = ()) -> bytes:
    """Return what a signature covers.

    ``left_out``: fields that some clients send and do not sign: ``_UNIQUE_KEY_QUERY`` up to 4.9.3, ``SecurityToken`` in
    Go.
    """
    signed = sorted(key for key in ext_fields if key != SIGNATURE and key not in left_out)
    return "".join([ext_fields[key] for key in signed]).encode() + body


def signature_of(secret_key: str, content: bytes) -> str:
    """Return the signature as it stands in the ext fields."""
    return b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()


def sign(command: RemotingCommand, keys: AccessKeys) -> None:
    """Give a request access key and signature, in a new dictionary: callers may share theirs. Replaces older ones."""
    fields = {**command.ext_fields, ACCESS_KEY: keys.access_key}
    if keys.security_token:
        fields[SECURITY_TOKEN] = keys.security_token
    fields[SIGNATURE] = signature_of(keys.secret_key, signed_content(fields, command.body))
    command.ext_fields = fields
