"""MQAdmin's calls about access control: accounts of 4.x (50-54), users and policies of 5.x (3001-3010).

Secrets are in requests and answers in clear text, as mqadmin has them. Protocol section 3.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.acl import AclConfig, AclInfo, PlainAccessConfig, UserInfo
from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.errors import BodyError
from consumers.admin.calls import AdminCalls

B = TypeVar("B", bound=JsonBody)


class AclAdmin(AdminCalls):
    """Calls about who may do what on a broker."""

    # --- Accounts of 4.x ---

    async def acl_config(self, addr: str) -> AclConfig:
        """Return accounts, with their secret keys, and white addresses. GET_BROKER_CLUSTER_ACL_CONFIG (54).

        A broker of 4.9.7 with aclEnable=false does not answer at all, one of 5.3 answers code 3.
        """
        return AclConfig.from_body(await self._ask_body(addr, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG))

    async def acl_files(self, addr: str) -> list[str]:
        """Return the broker's account files. GET_BROKER_CLUSTER_ACL_INFO (52)."""
        response = await self._ask(addr, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        versions = fastjson.loads(response.ext_fields.get("allAclFileVersion", "{}").encode())
        if not isinstance(versions, dict):
            raise BodyError(f"allAclFileVersion is {versions!r}, no table")
        return [str(path) for path in versions]

    async def put_account(self, addr: str, account: PlainAccessConfig) -> None:
        """Create an account or change what is not None of it. UPDATE_AND_CREATE_ACL_CONFIG (50)."""
        fields = {
            "accessKey": account.access_key,
            "secretKey": account.secret_key,
            "whiteRemoteAddress": account.white_remote_address,
            "admin": "true" if account.admin else "false",
            "defaultTopicPerm": account.default_topic_perm,
            "defaultGroupPerm": account.default_group_perm,
            "topicPerms": _joined(account.topic_perms),
            "groupPerms": _joined(account.group_perms),
        }
        given = {name: value for name, value in fields.items() if value is not None}
        await self._ask(addr, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, given)

    async def delete_account(self, addr: str, access_key: str) -> None:
        """Delete an account. DELETE_ACL_CONFIG (51)."""
        await self._ask(addr, RequestCode.DELETE_ACL_CONFIG, {"accessKey": access_key})

    async def put_white_addresses(self, addr: str, addresses: Sequence[str]) -> None:
        """Replace the white addresses of plain_acl.yml. UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53)."""
        fields = {"globalWhiteAddrs": ",".join(addresses)}
        await self._ask(addr, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)

    # --- Users and policies of 5.x ---

    async def users(self, addr: str) -> list[UserInfo]:
        """Return every user, with its password. AUTH_LIST_USER (3005)."""
        return _listed(UserInfo, await self._ask_body(addr, RequestCode.AUTH_LIST_USER, {"filter": ""}))

    async def user(self, addr: str, name: str) -> UserInfo | None:
        """Return a user, with its password. AUTH_GET_USER (3004)."""
        body = await self._ask_body(addr, RequestCode.AUTH_GET_USER, {"username": name})
        return UserInfo.from_body(body) if body else None

    async def create_user(self, addr: str, user: UserInfo) -> None:
        """Create a user. AUTH_CREATE_USER (3001)."""
        fields = {"username": user.username}
        await self._ask(addr, RequestCode.AUTH_CREATE_USER, fields, user.to_body())

    async def update_user(self, addr: str, user: UserInfo) -> None:
        """Change what is not None of a user. AUTH_UPDATE_USER (3002)."""
        fields = {"username": user.username}
        await self._ask(addr, RequestCode.AUTH_UPDATE_USER, fields, user.to_body())

    async def delete_user(self, addr: str, name: str) -> None:
        """Delete a user with its policies. AUTH_DELETE_USER (3003)."""
        await self._ask(addr, RequestCode.AUTH_DELETE_USER, {"username": name})

    async def acls(self, addr: str) -> list[AclInfo]:
        """Return the policies of every subject that has some. AUTH_LIST_ACL (3010)."""
        fields = {"subjectFilter": "", "resourceFilter": ""}
        return _listed(AclInfo, await self._ask_body(addr, RequestCode.AUTH_LIST_ACL, fields))

    async def acl(self, addr: str, subject: str) -> AclInfo | None:
        """Return the policies of a subject, `User:name`. AUTH_GET_ACL (3009)."""
        body = await self._ask_body(addr, RequestCode.AUTH_GET_ACL, {"subject": subject})
        return AclInfo.from_body(body) if body else None

    async def create_acl(self, addr: str, acl: AclInfo) -> None:
        """Give a subject its first policies. AUTH_CREATE_ACL (3006)."""
        await self._ask(addr, RequestCode.AUTH_CREATE_ACL, {"subject": acl.subject}, acl.to_body())

    async def update_acl(self, addr: str, acl: AclInfo) -> None:
        """Add entries, or replace those of the same resource. AUTH_UPDATE_ACL (3007)."""
        await self._ask(addr, RequestCode.AUTH_UPDATE_ACL, {"subject": acl.subject}, acl.to_body())

    async def delete_acl(self, addr: str, subject: str, resource: str = "", policy_type: str = "") -> None:
        """Delete the entry of a resource, without one every policy of the subject. AUTH_DELETE_ACL (3008)."""
        fields = {"subject": subject, "resource": resource, "policyType": policy_type}
        given = {name: value for name, value in fields.items() if value}
        await self._ask(addr, RequestCode.AUTH_DELETE_ACL, given)


def _joined(entries: Sequence[str] | None) -> str | None:
    return None if entries is None else ",".join(entries)


def _listed(kind: type[B], body: bytes) -> list[B]:
    """Return the list of a body; without a body it is empty, as Java writes it."""
    values = fastjson.loads(body) if body else []
    if not isinstance(values, list):
        raise BodyError(f"the answer is no list of {kind.__name__}")
    return [kind.from_value(value) for value in values]
