"""The headers of requests about access control (protocol section 3.15)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class UpdateAccountRequestHeader(HeaderFields):
    """UPDATE_AND_CREATE_ACL_CONFIG (50). Lists have commas between."""

    access_key: str = of("accessKey", "s")
    secret_key: str | None = of("secretKey", "s", None)
    white_remote_address: str | None = of("whiteRemoteAddress", "s", None)
    admin: bool | None = of("admin", "b", None)
    default_topic_perm: str | None = of("defaultTopicPerm", "s", None)
    default_group_perm: str | None = of("defaultGroupPerm", "s", None)
    topic_perms: str | None = of("topicPerms", "s", None)
    group_perms: str | None = of("groupPerms", "s", None)


@dataclass(slots=True)
class DeleteAccountRequestHeader(HeaderFields):
    """DELETE_ACL_CONFIG (51)."""

    access_key: str = of("accessKey", "s")


@dataclass(slots=True)
class UpdateWhiteAddressesRequestHeader(HeaderFields):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53). Without a file: the default one."""

    global_white_addrs: str = of("globalWhiteAddrs", "s")
    acl_file_full_path: str | None = of("aclFileFullPath", "s", None)


@dataclass(slots=True)
class UserRequestHeader(HeaderFields):
    """AUTH_CREATE_USER (3001) to AUTH_GET_USER (3004). A blank name has an answer of its own (29)."""

    username: str | None = of("username", "s", None)


@dataclass(slots=True)
class ListUsersRequestHeader(HeaderFields):
    """AUTH_LIST_USER (3005)."""

    filter: str | None = of("filter", "s", None)


@dataclass(slots=True)
class AclRequestHeader(HeaderFields):
    """AUTH_CREATE_ACL (3006) to AUTH_GET_ACL (3009); only 3008 has the last two."""

    subject: str | None = of("subject", "s", None)
    resource: str | None = of("resource", "s", None)
    policy_type: str | None = of("policyType", "s", None)


@dataclass(slots=True)
class ListAclsRequestHeader(HeaderFields):
    """AUTH_LIST_ACL (3010)."""

    subject_filter: str | None = of("subjectFilter", "s", None)
    resource_filter: str | None = of("resourceFilter", "s", None)
