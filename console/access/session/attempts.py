"""How often a password may be tried: by account and by address, counted before the password is looked at.

An attempt is a row that goes when the password was right. It is written first and counted then, so of attempts at the
same moment each sees those written before it: never more are let through than the limit, over any number of
processes. At worst some are refused that could have been let through.
"""

import datetime
from ipaddress import IPv6Address, ip_address

from console.access.errors import TooManyAttempts
from console.access.models import SignInFailure

# Wrong passwords within WINDOW that close the door: for this account from this address, from this address for any,
# and for this account from anywhere (higher, so that a stranger can not easily lock a person out).
WINDOW = datetime.timedelta(minutes=5)
ACCOUNT_AND_ADDRESS_MAX, ADDRESS_MAX, ACCOUNT_MAX = 5, 20, 50
IPV6_NETWORK_BITS = 64  # what one subscriber gets: as many addresses as anybody likes
NAME_LENGTH_MAX = 150


def begin(username: str, remote_addr: str, at: datetime.datetime) -> SignInFailure:
    """Count an attempt that is about to be made. Raises TooManyAttempts, also for what would be the right password."""
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
    """The password was right: what was typed wrong before on the same account, from there, counts no more."""
    SignInFailure.objects.filter(username=attempt.username, remote_addr=attempt.remote_addr).delete()


def network_of(remote_addr: str) -> str:
    """The address, or of IPv6 the network that its owner chooses addresses from: "2001:db8:0:1::/64"."""
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
    """Seconds until one more attempt is let through; 0: now."""
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
