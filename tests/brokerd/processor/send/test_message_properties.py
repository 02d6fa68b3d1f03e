from __future__ import annotations

import os

from brokerd.processor.send.message_properties import has_no_special, make_unique_key


def test_it_finds_names_that_need_special_care() -> None:
    assert has_no_special({"TAGS": "a", "KEYS": "k"})
    assert not has_no_special({"TAGS": "a", "DELAY": "3"})


def test_it_makes_keys_of_address_process_and_counter() -> None:
    first, second = (
        make_unique_key("10.0.0.1", 1_700_000_000_000),
        make_unique_key("10.0.0.1", 1_700_000_000_000),
    )
    assert (len(first), first[:8], first[8:12]) == (32, "0A000001", f"{os.getpid() & 0xFFFF:04X}")
    assert int(second[28:], 16) == (int(first[28:], 16) + 1) & 0xFFFF
    assert len(make_unique_key("::1", 0)) == 56
