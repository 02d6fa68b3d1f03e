"""Limit password attempts by account and by address, counted before the password is checked.

An attempt is a row that is deleted when the password was right. It is written first and counted then, so each
of several simultaneous attempts sees those written before it: no more than the limit get through, over any
number of processes. At worst some are refused that could have been allowed.
"""

import datetime
from ipaddress import IPv6Address, ip_address

from console.access.errors import TooManyAttempts
from console.access.models import SignInFailure

# Wrong passwords within WINDOW that close sign-in: for this account from this address, from this address for
# any account, and for this account from anywhere (higher, so that a stranger cannot easily lock a person out).
WINDOW = datetime.timedelta(minutes=5)
ACCOUNT_AND_ADDRESS_MAX, ADDRESS_MAX, ACCOUNT_MAX = 5, 20, 50
# What one subscriber gets: any number of addresses.
IPV6_NETWORK_BITS = 64
NAME_LENGTH_MAX = 150


def begin(username: str, remote_addr: str, at: datetime.datetime) -> SignInFailure:
    """Count an attempt before it is made. Raises TooManyAttempts, even if the password would be right."""
    SignInFailure.objects.filter(at__lte=at - WINDOW).delete()
    mine = SignInFailure.objects.create(
        username=username[:NAME_LENGTH_MAX], remote_addr=network_of(remote_addr), at=at
    )
    wait_s = _wait_s(mine)
    if wait_s:
        mine.delete()
        raise TooManyAttempts(wait_s)
    return mine


def succeeded(attempt: SignInFailure) -> None:
    """Delete the account's failed attempts from this address: the password was right."""
    SignInFailure.objects.filter(username=attempt.username, remote_addr=attempt.remote_addr).delete()


def network_of(remote_addr: str) -> str:
    """Return the IPv4 address, or the /64 network of an IPv6 address: "2001:db8:0:1::/64"."""
    try:
        address = ip_address(remote_addr.partition("%")[0])
    except ValueError:
        return remote_addr[:64]
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    shift = 128 - IPV6_NETWORK_BITS
    return f"{IPv6Address(int(address) >> shift << shift)}/{IPV6_NETWORK_BITS}"


def _wait_s(mine: SignInFailure) -> int:
    """Return the seconds until the next attempt is allowed; 0 when it is now."""
    others = SignInFailure.objects.filter(at__gt=mine.at - WINDOW).exclude(pk=mine.pk)
    limits = [
        (others.filter(username=mine.username, remote_addr=mine.remote_addr), ACCOUNT_AND_ADDRESS_MAX),
        (others.filter(remote_addr=mine.remote_addr), ADDRESS_MAX),
        (others.filter(username=mine.username), ACCOUNT_MAX),
    ]
    for attempts, limit in limits:
        newest = list(attempts.order_by("-at").values_list("at", flat=True)[:limit])
        if len(newest) == limit:
            return max(1, round((newest[-1] + WINDOW - mine.at).total_seconds()))
    return 0
