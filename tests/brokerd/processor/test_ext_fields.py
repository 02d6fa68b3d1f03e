from __future__ import annotations

import pytest

from brokerd.processor.ext_fields import is_true, optional, optional_int, required, required_int
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import HeaderFieldError

COMMAND = RemotingCommand.request(
    17, {"topic": "T", "perm": "6", "empty": "", "order": "TRUE", "big": "9" * 19}
)


def test_it_reads_what_is_there() -> None:
    assert (required(COMMAND, "topic"), required_int(COMMAND, "perm")) == ("T", 6)
    assert (optional(COMMAND, "topic"), optional(COMMAND, "none", "x")) == ("T", "x")
    assert (
        optional_int(COMMAND, "perm", 1),
        optional_int(COMMAND, "empty", 1),
        optional_int(COMMAND, "none", 2),
    ) == (
        6,
        1,
        2,
    )
    assert (is_true(COMMAND, "order"), is_true(COMMAND, "perm"), is_true(COMMAND, "none")) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none", "is required"), ("topic", "takes a whole number"), ("big", "takes a number from")],
)
def test_it_names_the_field_that_is_wrong(name: str, reason: str) -> None:
    with pytest.raises(HeaderFieldError, match=f"header field {name}: {reason}"):
        required_int(COMMAND, name)
