"""Where a request comes from: the other end of the connection or, behind proxies that settings trust, whom they name.

`TRUSTED_PROXIES` lists the proxies. A header of anybody else is not believed: it would choose its own address in the
audit and escape the limits of sign-in. Knows no Django.
"""

from collections.abc import Iterable, MutableMapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

Scope = MutableMapping[str, Any]
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

HOPS_MAX = 32  # addresses of one X-Forwarded-For that are looked at; no site has more proxies in a row
FORWARDING_HEADERS = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
LOOPBACK_HOSTS = frozenset({b"127.0.0.1", b"localhost", b"[::1]"})


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """ "10.0.0.5", "10.0.0.0/24" → networks. Raises ValueError."""
    return tuple(ip_network(text.strip()) for text in texts)


def with_client(scope: Scope, trusted: Sequence[Network]) -> Scope:
    """The scope with the address of the client that trusted proxies name, the last one that is no proxy itself."""
    client = scope.get("client")
    if not trusted or not client or not _is_one_of(_address(client[0]), trusted):
        return scope
    hops = [
        hop
        for name, value in scope["headers"]
        if name == b"x-forwarded-for"
        for hop in value.decode("latin-1").split(",")
    ]
    found = client[0]
    for hop in reversed(hops[-HOPS_MAX:]):
        address = _address(hop.strip())
        if address is None:
            break  # what stands before it was not written by a proxy of ours
        found = str(address)
        if not _is_one_of(address, trusted):
            break
    return {**scope, "client": (found, 0)}


def is_this_machine(scope: Scope) -> bool:
    """Whether a process of this machine asks for itself: over loopback, by a loopback name, without a proxy between.

    A proxy here hands on the requests of strangers, and a page in a browser here may ask under a name of its own
    that leads to 127.0.0.1.
    """
    client = scope.get("client")
    address = _address(client[0]) if client else None
    headers = scope["headers"]
    hosts = [value for name, value in headers if name == b"host"]
    return (
        address is not None
        and address.is_loopback
        and not any(name in FORWARDING_HEADERS for name, _ in headers)
        and all(_without_port(host) in LOOPBACK_HOSTS for host in hosts)
    )


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return name if colon and port.isdigit() else host


def _is_one_of(address: Address | None, trusted: Sequence[Network]) -> bool:
    return address is not None and any(
        address.version == network.version and address in network for network in trusted
    )


def _address(text: str) -> Address | None:
    """ "10.0.0.5", "10.0.0.5:4711", "[::1]:4711", "::ffff:10.0.0.5" → the address; None for anything else."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
