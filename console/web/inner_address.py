"""Addresses that no form may make the console connect to: its own, link-local, cloud metadata."""

import ipaddress
import socket

# Metadata addresses besides link-local ones, where clouds serve a machine its secrets: AWS over IPv6, Alibaba, Oracle.
METADATA_ADDRESSES = frozenset({"fd00:ec2::254", "100.100.100.200", "192.0.0.192"})


def is_inner(host: str) -> bool:
    """Whether an address is this machine's own, link-local or cloud metadata. False for names.

    Private networks are allowed: chat servers and brokers are there.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    if address is None:
        return False
    kinds = (address.is_loopback, address.is_unspecified, address.is_multicast)
    return any(kinds) or _is_of_the_machine(address)


def leads_to_machine_secrets(host: str) -> bool:
    """Whether an address or name is link-local or a cloud's metadata address.

    A name is resolved; one that does not resolve is False.
    """
    address = _address(host)
    if address is not None:
        return _is_of_the_machine(address)
    try:
        found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        return False
    addresses = (_address(str(each[4][0])) for each in found)
    return any(address is not None and _is_of_the_machine(address) for address in addresses)


def _is_of_the_machine(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_link_local or str(address) in METADATA_ADDRESSES


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
