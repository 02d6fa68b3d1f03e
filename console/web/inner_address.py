"""Addresses that no form may make the console connect to: this machine's own, link-local, secrets of clouds."""

import ipaddress
import socket

# Where clouds serve a machine its own secrets, besides link-local addresses: AWS over IPv6, Alibaba, Oracle.
METADATA_ADDRESSES = frozenset({"fd00:ec2::254", "100.100.100.200", "192.0.0.192"})


def is_inner(host: str) -> bool:
    """Whether an address is this machine's own, link-local, or one where clouds keep secrets. False for names.
    Addresses of private networks are where chat servers and brokers are: they are allowed.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    if address is None:
        return False
    kinds = (address.is_loopback, address.is_unspecified, address.is_multicast)
    return any(kinds) or _is_of_the_machine(address)


def leads_to_machine_secrets(host: str) -> bool:
    """Whether an address or a name is link-local, or one where clouds keep secrets. A name is looked up; one that is
    not known leads nowhere.
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
