"""Requests about users and policies of 5.x (protocol section 3.15, `AdminBrokerProcessor.java` of 5.3.3).

They are served whether or not authenticationEnabled is set, so that users exist when it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.acl.auth_manager import SUPER
from brokerd.acl.policy import parse_resource
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.remoting.body import fastjson
from brokerd.remoting.body.acl import AclInfo, UserInfo
from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, error_for
from brokerd.remoting.header.acl import (
    AclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from brokerd.remoting.signature import ACCESS_KEY


def _name(command: RemotingCommand) -> str:
    name = UserRequestHeader.from_ext_fields(command.ext_fields).username or ""
    if not name.strip():
        raise error_for(ResponseCode.INVALID_PARAMETER, "The username is blank")
    return name


def _user(command: RemotingCommand) -> UserInfo:
    name = _name(command)
    info = UserInfo.from_request(command.body)
    info.username = name
    return info


def _refuse_others_than_super(broker: Broker, command: RemotingCommand, refusal: MQBrokerError) -> None:
    """Raise the refusal for a caller that names itself and is no super user; an unsigned one was let in on purpose."""
    caller = command.ext_fields.get(ACCESS_KEY)
    if caller and not broker.access.auth.is_super(caller):
        raise refusal


def _refuse_change_of_super(broker: Broker, command: RemotingCommand, name: str) -> None:
    user = broker.access.auth.users.get(name)
    if user is not None and user.is_super:
        reason = "The super user can only be update by super user"
        _refuse_others_than_super(broker, command, error_for(ResponseCode.NO_PERMISSION, reason))


def _refuse_making_super(broker: Broker, command: RemotingCommand, info: UserInfo, word: str) -> None:
    if (info.user_type or "").lower() == SUPER.lower():
        reason = f"The super user can only be {word} by super user"
        _refuse_others_than_super(broker, command, error_for(ResponseCode.SYSTEM_ERROR, reason))


def create_user(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """AUTH_CREATE_USER (3001)."""
    info = _user(command)
    _refuse_making_super(broker, command, info, "create")
    broker.access.auth.create_user(info)
    return Saved(command.response(ResponseCode.SUCCESS))


def update_user(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """AUTH_UPDATE_USER (3002): what is given of password, type and status."""
    info = _user(command)
    _refuse_making_super(broker, command, info, "update")
    _refuse_change_of_super(broker, command, info.username)
    broker.access.auth.update_user(info)
    return Saved(command.response(ResponseCode.SUCCESS))


def delete_user(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """AUTH_DELETE_USER (3003): with its policies; nothing happens where there is none."""
    name = _name(command)
    _refuse_change_of_super(broker, command, name)
    broker.access.auth.delete_user(name)
    return Saved(command.response(ResponseCode.SUCCESS))


def get_user(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """AUTH_GET_USER (3004): without a body where there is none."""
    user = broker.access.auth.users.get(_name(command))
    return command.response(ResponseCode.SUCCESS, body=user.info().to_body() if user is not None else b"")


def list_users(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """AUTH_LIST_USER (3005)."""
    header = ListUsersRequestHeader.from_ext_fields(command.ext_fields)
    return _answer_list(command, broker.access.auth.list_users((header.filter or "").strip()))


def put_acl(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """AUTH_CREATE_ACL (3006), AUTH_UPDATE_ACL (3007): Java's do the same."""
    header = AclRequestHeader.from_ext_fields(command.ext_fields)
    info = AclInfo.from_request(command.body) if command.body else AclInfo()
    info.subject = info.subject or header.subject or ""
    if not info.policies:
        raise error_for(ResponseCode.NO_PERMISSION, "The body of acl is null")
    broker.access.auth.put_acl(info)
    return Saved(command.response(ResponseCode.SUCCESS))


def delete_acl(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """AUTH_DELETE_ACL (3008): the entry of a resource, or all policies of the subject."""
    header = AclRequestHeader.from_ext_fields(command.ext_fields)
    resource = (header.resource or "").strip()
    try:
        broker.access.auth.delete_acl(
            header.subject or "",
            (header.policy_type or "").strip() or None,
            parse_resource(resource) if resource else None,
        )
    except ValueError as error:
        raise error_for(ResponseCode.INVALID_PARAMETER, str(error)) from error
    return Saved(command.response(ResponseCode.SUCCESS))


def get_acl(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """AUTH_GET_ACL (3009)."""
    header = AclRequestHeader.from_ext_fields(command.ext_fields)
    info = broker.access.auth.get_acl(header.subject or "")
    return command.response(ResponseCode.SUCCESS, body=info.to_body() if info is not None else b"")


def list_acls(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """AUTH_LIST_ACL (3010)."""
    header = ListAclsRequestHeader.from_ext_fields(command.ext_fields)
    subject, resource = (header.subject_filter or "").strip(), (header.resource_filter or "").strip()
    return _answer_list(command, broker.access.auth.list_acls(subject, resource))


def _answer_list(command: RemotingCommand, bodies: Sequence[JsonBody]) -> RemotingCommand:
    """Return a list; without a body when it is empty, as Java."""
    body = fastjson.dumps([body.to_value() for body in bodies]) if bodies else b""
    return command.response(ResponseCode.SUCCESS, body=body)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.AUTH_CREATE_USER: create_user,
    RequestCode.AUTH_UPDATE_USER: update_user,
    RequestCode.AUTH_DELETE_USER: delete_user,
    RequestCode.AUTH_GET_USER: get_user,
    RequestCode.AUTH_LIST_USER: list_users,
    RequestCode.AUTH_CREATE_ACL: put_acl,
    RequestCode.AUTH_UPDATE_ACL: put_acl,
    RequestCode.AUTH_DELETE_ACL: delete_acl,
    RequestCode.AUTH_GET_ACL: get_acl,
    RequestCode.AUTH_LIST_ACL: list_acls,
}
