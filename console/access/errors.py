"""Refusals of sign-in and tokens. Each says what to do next, without telling a guesser what was right."""

from console.text import Text


class AccessError(Exception):
    """Base of this app's errors."""


class WrongCredentials(AccessError):
    """No active person with this name and password."""


class TooManyAttempts(AccessError):
    """Sign-in is closed for a while; ``retry_after_s`` says how long."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(Text("Too many attempts. Try again in %(number)s seconds.", number=retry_after_s))
        self.retry_after_s = retry_after_s


class LinkInvalid(AccessError):
    """A one-time link that was used, is too old, or never was."""


class TokenInvalid(AccessError):
    """An API token that is unknown, revoked or expired, or whose owner left."""


class RoleRejected(AccessError):
    """A role that is not there, or that grants still give."""
