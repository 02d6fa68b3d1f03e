"""Bodies of access control: accounts of 4.x (54), users and policies of 5.x (3001-3010); protocol section 3.15."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.remoting.body.json_body import JsonBody, wire


@dataclass(slots=True)
class PlainAccessConfig(JsonBody):
    """An account of plain_acl.yml; absent values are None."""

    access_key: str = ""
    secret_key: str | None = field(default=None, repr=False)
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None


@dataclass(slots=True)
class AclConfig(JsonBody):
    """54: every account and white address of all files."""

    global_white_addrs: list[str] = field(default_factory=list)
    plain_access_configs: list[PlainAccessConfig] = field(default_factory=list)


@dataclass(slots=True)
class UserInfo(JsonBody):
    """A user of 5.x. `user_type`: Super or Normal; `user_status`: enable or disable."""

    username: str = ""
    password: str | None = field(default=None, repr=False)
    user_type: str | None = None
    user_status: str | None = None


@dataclass(slots=True)
class PolicyEntryInfo(JsonBody):
    """What a subject may do, or may not, with one resource."""

    resource: str = ""
    actions: list[str] = field(default_factory=list)
    source_ips: list[str] | None = wire("sourceIps", None)
    decision: str = ""


@dataclass(slots=True)
class PolicyInfo(JsonBody):
    """Entries of one kind: Custom, or Default which counts where no custom entry matches."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] = field(default_factory=list)


@dataclass(slots=True)
class AclInfo(JsonBody):
    """3006, 3007, 3009: the policies of a subject, `User:name`."""

    subject: str = ""
    policies: list[PolicyInfo] = field(default_factory=list)
