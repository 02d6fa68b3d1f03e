"""Requests about accounts of 4.x: change, delete, list (protocol section 3.15, `AdminBrokerProcessor.java` of 4.9.7).

With aclEnable=false they are not served, as Apache's 5.3 never does: 4.9.7 fails or does not answer at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.remoting.body import fastjson
from brokerd.remoting.body.acl import PlainAccessConfig
from brokerd.remoting.body.topic import DataVersion
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.acl import (
    DeleteAccountRequestHeader,
    UpdateAccountRequestHeader,
    UpdateWhiteAddressesRequestHeader,
)

if TYPE_CHECKING:
    from brokerd.acl.plain_permission import PlainPermissionManager

# What 4.x calls 209-211; 5.x has other meanings for these numbers.
UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209
DELETE_ACL_CONFIG_FAILED = 210
UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211


def accounts(broker: Broker) -> PlainPermissionManager:
    if broker.access.plain is None:
        raise error_for(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "this broker has no accounts of 4.x: aclEnable is false. Set it and start again, or use users (3001-3010)",
        )
    return broker.access.plain


def update_account(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_AND_CREATE_ACL_CONFIG (50)."""
    header = UpdateAccountRequestHeader.from_ext_fields(command.ext_fields)
    config = PlainAccessConfig(
        access_key=header.access_key,
        secret_key=header.secret_key,
        white_remote_address=header.white_remote_address,
        admin=header.admin or False,
        default_topic_perm=header.default_topic_perm,
        default_group_perm=header.default_group_perm,
        topic_perms=_list(header.topic_perms),
        group_perms=_list(header.group_perms),
    )
    try:
        accounts(broker).update(config, now_ms)
    except ValueError as error:
        raise error_for(UPDATE_AND_CREATE_ACL_CONFIG_FAILED, str(error)) from error
    return Saved(command.response(ResponseCode.SUCCESS))


def delete_account(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """DELETE_ACL_CONFIG (51)."""
    header = DeleteAccountRequestHeader.from_ext_fields(command.ext_fields)
    try:
        accounts(broker).delete(header.access_key, now_ms)
    except ValueError as error:
        raise error_for(DELETE_ACL_CONFIG_FAILED, str(error)) from error
    return Saved(command.response(ResponseCode.SUCCESS))


def get_account_versions(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_BROKER_CLUSTER_ACL_INFO (52): the versions of the files."""
    plain = accounts(broker)
    versions = plain.versions()
    fields = {
        "version": versions.get(plain.default_file, DataVersion()).to_body().decode(),
        "allAclFileVersion": fastjson.dumps(
            {str(path): version.to_value() for path, version in versions.items()}
        ).decode(),
        "brokerName": broker.broker_name,
        "brokerAddr": broker.address,
        "clusterName": broker.config.broker.broker_cluster_name,
    }
    return command.response(ResponseCode.SUCCESS, ext_fields=fields)


def update_white_addresses(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53)."""
    header = UpdateWhiteAddressesRequestHeader.from_ext_fields(command.ext_fields)
    addresses = _list(header.global_white_addrs) or []
    try:
        accounts(broker).set_white_addresses(addresses, header.acl_file_full_path or "", now_ms)
    except ValueError as error:
        raise error_for(UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, str(error)) from error
    return Saved(command.response(ResponseCode.SUCCESS))


def get_accounts(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """GET_BROKER_CLUSTER_ACL_CONFIG (54): with the secret keys, as mqadmin shows them."""
    return command.response(ResponseCode.SUCCESS, body=accounts(broker).config().to_body())


def _list(text: str | None) -> list[str] | None:
    """`a,b` as its parts; an address list in braces keeps its commas."""
    if text is None:
        return None
    parts: list[str] = []
    for part in text.split(","):
        if parts and parts[-1].count("{") > parts[-1].count("}"):
            parts[-1] += "," + part
        elif part.strip():
            parts.append(part.strip())
    return parts


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: update_account,
    RequestCode.DELETE_ACL_CONFIG: delete_account,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: get_account_versions,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: update_white_addresses,
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: get_accounts,
}
