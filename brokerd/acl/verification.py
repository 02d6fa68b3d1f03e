"""Check the signature of a request against a secret key (protocol section 1.10)."""

from __future__ import annotations

import hmac
from itertools import chain, combinations

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import SECURITY_TOKEN, SIGNATURE, signature_of, signed_content

# Fields that some clients send and do not sign, and that change nothing a right depends on: the first up to 4.9.3,
# the second in Go. Brokers differ: 4.9.7 always leaves the first out, which refuses its own clients' queries.
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
PERHAPS_UNSIGNED = (UNIQUE_KEY_QUERY, SECURITY_TOKEN)


def is_signed_with(secret_key: str, command: RemotingCommand) -> bool:
    """Return whether the request's signature was made with this secret key. Constant-time in the signature."""
    fields = command.ext_fields
    signature = fields.get(SIGNATURE, "").encode()
    unsure = [name for name in PERHAPS_UNSIGNED if name in fields]
    for left_out in chain.from_iterable(combinations(unsure, count) for count in range(len(unsure) + 1)):
        right = signature_of(secret_key, signed_content(fields, command.body, left_out))
        if hmac.compare_digest(right.encode(), signature):
            return True
    return False
