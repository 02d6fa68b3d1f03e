"""Find a request's client: the other end of the connection, or the one named by trusted proxies.

`TRUSTED_PROXIES` lists the proxies. Headers of any other peer are ignored: it could choose its own address in the audit
and escape the limits of sign-in. Imports no Django.
"""

from collections.abc import Iterable, MutableMapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

Scope = MutableMapping[str, Any]
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

# Addresses of one X-Forwarded-For that are read; no site has more proxies in a row.
HOPS_MAX = 32
FORWARDING_HEADERS = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
LOOPBACK_HOSTS = frozenset({b"127.0.0.1", b"localhost", b"[::1]"})


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse "10.0.0.5", "10.0.0.0/24" into networks. Raises ValueError."""
    return tuple(ip_network(text.strip()) for text in texts)


def with_client(scope: Scope, trusted: Sequence[Network]) -> Scope:
    """Return the scope with the client's address: the last in X-Forwarded-For that is no trusted proxy."""
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
            # What stands before it was not written by a trusted proxy.
            break
        found = str(address)
        if not _is_one_of(address, trusted):
            break
    return {**scope, "client": (found, 0)}


def is_this_machine(scope: Scope) -> bool:
    """Whether a process of this machine made the request: by loopback address and name, without a proxy.

    A local proxy passes on the requests of strangers, and a page in a local browser may use a name of its own that
    resolves to 127.0.0.1.
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
    """Parse "10.0.0.5", "10.0.0.5:4711", "[::1]:4711", "::ffff:10.0.0.5"; None for anything else."""
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
