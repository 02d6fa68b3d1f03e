from __future__ import annotations

import pytest

from brokerd.remoting.message.hosts import address_text, encode_host


@pytest.mark.parametrize(
    ("host", "packed"),
    [
        (("10.0.0.1", 50000), "0a000001 0000c350"),
        (("2001:db8::1", 1), "20010db8000000000000000000000001 00000001"),
    ],
)
def test_it_packs_address_and_port(host: tuple[str, int], packed: str) -> None:
    data = bytes.fromhex(packed)
    assert encode_host(host) == data
    assert address_text(data[:-4]) == host[0]


def test_it_refuses_a_name() -> None:
    with pytest.raises(ValueError, match="localhost"):
        encode_host(("localhost", 1))
