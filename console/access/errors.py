"""Refusals of sign-in and tokens. Each states what to do next, without revealing which part was right."""

from console.text import Duration, Text


class AccessError(Exception):
    """Base of this app's errors."""


class WrongCredentials(AccessError):
    """No active person with this name and password."""


class TooManyAttempts(AccessError):
    """Sign-in is closed for ``retry_after_s`` seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(
            Text("Too many attempts. Try again in %(wait)s.", wait=Duration(retry_after_s * 1_000))
        )
        self.retry_after_s = retry_after_s


class LinkInvalid(AccessError):
    """A one-time link that was used, has expired or never existed."""


class TokenInvalid(AccessError):
    """An API token that is unknown, revoked or expired, or whose owner is inactive."""


class RoleRejected(AccessError):
    """A role that does not exist, or that grants still use."""
