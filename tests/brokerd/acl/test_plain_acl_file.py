"""plain_acl.yml: what it may hold, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.acl.plain_acl_file import AclFile, AclFileError, acl_file_text, read_acl_file
from brokerd.remoting.body.acl import PlainAccessConfig
from brokerd.remoting.body.topic import DataVersion

APACHE = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
  - accessKey: "rocketmq2"
    secretKey: '0123456_7'
    admin: true
dataVersion:
- counter: 3
  timestamp: 1700000000000
"""


def read(tmp_path: Path, text: str) -> AclFile:
    path = tmp_path / "plain_acl.yml"
    path.write_text(text)
    return read_acl_file(path)


def test_it_reads_the_file_of_apache(tmp_path: Path) -> None:
    file = read(tmp_path, APACHE)
    assert file.white_addresses == ("10.10.103.*", "192.168.0.*")
    assert file.accounts == (
        PlainAccessConfig(
            "RocketMQ",
            "12345678",
            None,
            False,
            "DENY",
            "SUB",
            ["topicA=DENY", "topicB=PUB|SUB"],
            ["groupA=DENY"],
        ),
        PlainAccessConfig("rocketmq2", "0123456_7", admin=True),
    )
    assert (file.version, file.warnings) == (DataVersion(1_700_000_000_000, 3), ())
    assert read(tmp_path, acl_file_text(file)) == file


@pytest.mark.parametrize("text", ["", "# nothing\n", "accounts:\n", "~\n"])
def test_an_empty_file_holds_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == AclFile()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("accounts:\n\t- accessKey: x\n", 2, "this is not YAML"),
        ("- a\n", 1, "the file must be `name: value` lines"),
        ("accounts: 7\n", 1, "accounts must be a list"),
        (
            "accounts:\n- accessKey: rocketmq2\n  secretKey: short\n",
            2,
            "secretKey of accessKey=rocketmq2 has 5",
        ),
        ("accounts:\n- accessKey: abcdef\n  secretKey: 12345678\n", 2, "accessKey=abcdef has 6 characters"),
        ("accounts:\n- secretKey: 12345678\n", 2, "accessKey= has 0 characters"),
        (
            "accounts:\n- accessKey: rocketmq2\n  accessKey: rocketmq3\n",
            3,
            "accessKey stands twice in an account",
        ),
        (
            "accounts:\n- accessKey: rocketmq2\n  secretKey: 12345678\n  topicPerms: [orders]\n",
            2,
            "topicPerms 'orders' is not name=permission: write one like orders=PUB",
        ),
        (
            "accounts:\n- accessKey: rocketmq2\n  secretKey: 12345678\n  whiteRemoteAddress: x\n",
            2,
            "'x' is no address",
        ),
        ("globalWhiteRemoteAddresses:\n- 10.0.0.1\n- nowhere\n", 3, "'nowhere' is no address"),
        ("dataVersion:\n- counter: x\n", 2, "invalid literal"),
        ("accounts:\n- accessKey: {a: b}\n", 2, "this must be one value"),
    ],
)
def test_an_error_names_the_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(AclFileError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'plain_acl.yml'}, line {line}: {reason}")


def test_secrets_are_in_no_error_and_no_repr(tmp_path: Path) -> None:
    with pytest.raises(AclFileError) as error:
        read(tmp_path, "accounts:\n- accessKey: short\n  secretKey: hidden-one\n")
    assert "hidden-one" not in str(error.value)
    assert "12345678" not in repr(read(tmp_path, APACHE))


def test_what_denies_by_mistake_is_warned_of(tmp_path: Path) -> None:
    account = "- accessKey: rocketmq2\n  secretKey: 12345678\n"
    file = read(tmp_path, f"accounts:\n{account}  defaultTopicPerm: PUBB\n  topic: x\n{account}other: 1\n")
    assert [warning.partition(", ")[2] for warning in file.warnings] == [
        "line 2: permission 'PUBB' of rocketmq2 denies: it is none of DENY, PUB, SUB, PUB|SUB, SUB|PUB",
        "line 5: topic of rocketmq2 has no effect: unknown to this broker",
        "line 6: accessKey rocketmq2 is repeated; the first one counts",
        "line 8: other has no effect: unknown to this broker",
    ]
    assert len(file.accounts) == 1


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(AclFileError, match="it is not UTF-8"):
        read_acl_file(path)
    path.write_text("[" * 100_000)
    with pytest.raises(AclFileError, match="nested too deeply"):
        read_acl_file(path)
