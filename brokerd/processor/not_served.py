"""Request codes that this broker and name server leave out, each with the reason its answer (3) gives.

A code that no release of RocketMQ has a handler for is listed too: a client that sends one is wrong, not unlucky.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.remoting.codes import RequestCode

NO_RELEASE = "no release of RocketMQ answers it"
NO_FILTER_SERVER = "filter servers ended with RocketMQ 4.3; filter by SQL92 (enablePropertyFilter) instead"
NO_ROCKSDB = "this broker keeps its queues and tables in files, not in RocksDB"
NO_COLD_FLOW = (
    "no group is slowed down here for reading old messages: threads read them, other groups do not wait"
)
NO_CONTROLLER = "this broker does not run under a controller; its role is set by brokerRole"
NO_ACTING_MASTER = "slaves do not act as masters here; a slave finds its master by its name servers"
NO_CONTAINER = "this process holds one broker; start another process for another broker"

NOT_SERVED: Mapping[int, str] = {
    RequestCode.QUERY_BROKER_OFFSET: NO_RELEASE,
    RequestCode.GET_TOPIC_CONFIG_LIST: NO_RELEASE,
    RequestCode.GET_TOPIC_NAME_LIST: NO_RELEASE,
    RequestCode.TRIGGER_DELETE_FILES: f"{NO_RELEASE}; DELETE_EXPIRED_COMMITLOG (329) deletes expired files",
    RequestCode.GET_CLIENT_CONFIG: NO_RELEASE,
    RequestCode.SUSPEND_CONSUMER: NO_RELEASE,
    RequestCode.RESUME_CONSUMER: NO_RELEASE,
    RequestCode.RESET_CONSUMER_OFFSET_IN_CONSUMER: NO_RELEASE,
    RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER: NO_RELEASE,
    RequestCode.ADJUST_CONSUMER_THREAD_POOL: NO_RELEASE,
    RequestCode.WHO_CONSUME_THE_MESSAGE: NO_RELEASE,
    RequestCode.REGISTER_FILTER_SERVER: NO_FILTER_SERVER,
    RequestCode.REGISTER_MESSAGE_FILTER_CLASS: NO_FILTER_SERVER,
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: NO_ROCKSDB,
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: NO_ROCKSDB,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: "static topics are not supported; create an ordinary one (17)",
    RequestCode.ADD_BROKER: NO_CONTAINER,
    RequestCode.REMOVE_BROKER: NO_CONTAINER,
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: NO_ACTING_MASTER,
    RequestCode.EXCHANGE_BROKER_HA_INFO: NO_ACTING_MASTER,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: "a slave of this broker takes its master's offsets from replication only",
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: NO_CONTROLLER,
    RequestCode.CONTROLLER_ELECT_MASTER: NO_CONTROLLER,
    RequestCode.CONTROLLER_REGISTER_BROKER: NO_CONTROLLER,
    RequestCode.CONTROLLER_GET_REPLICA_INFO: NO_CONTROLLER,
    RequestCode.CONTROLLER_GET_METADATA_INFO: NO_CONTROLLER,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: NO_CONTROLLER,
    RequestCode.GET_BROKER_EPOCH_CACHE: NO_CONTROLLER,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: NO_CONTROLLER,
    RequestCode.UPDATE_CONTROLLER_CONFIG: NO_CONTROLLER,
    RequestCode.GET_CONTROLLER_CONFIG: NO_CONTROLLER,
    RequestCode.CLEAN_BROKER_DATA: NO_CONTROLLER,
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: NO_CONTROLLER,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: NO_CONTROLLER,
    RequestCode.BROKER_CLOSE_CHANNEL_REQUEST: NO_CONTROLLER,
    RequestCode.CHECK_NOT_ACTIVE_BROKER_REQUEST: NO_CONTROLLER,
    RequestCode.GET_BROKER_LIVE_INFO_REQUEST: NO_CONTROLLER,
    RequestCode.GET_SYNC_STATE_DATA_REQUEST: NO_CONTROLLER,
    RequestCode.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST: NO_CONTROLLER,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: NO_COLD_FLOW,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: NO_COLD_FLOW,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: NO_COLD_FLOW,
    RequestCode.SET_COMMITLOG_READ_MODE: "old messages are read ahead in blocks of 256 KiB whatever the mode",
}


def refusal(code: int) -> str:
    """Return the remark of an answer to a code without a handler: RocketMQ's words, then the reason."""
    reason = NOT_SERVED.get(code)
    remark = f" request type {code} not supported"
    return remark if reason is None else f"{remark}: {reason}"
