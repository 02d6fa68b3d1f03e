"""Every body of the protocol under one name: the catalogue of protocol section 3.2."""

from brokerd.remoting.admin_bodies import (
    BrokerStatsData as BrokerStatsData,
)
from brokerd.remoting.admin_bodies import (
    BrokerStatsItem as BrokerStatsItem,
)
from brokerd.remoting.admin_bodies import (
    ConsumerOffsetWrapper as ConsumerOffsetWrapper,
)
from brokerd.remoting.admin_bodies import (
    ConsumeStats as ConsumeStats,
)
from brokerd.remoting.admin_bodies import (
    ConsumeStatsList as ConsumeStatsList,
)
from brokerd.remoting.admin_bodies import (
    ConsumeStatus as ConsumeStatus,
)
from brokerd.remoting.admin_bodies import (
    CreateTopicListRequestBody as CreateTopicListRequestBody,
)
from brokerd.remoting.admin_bodies import (
    DataVersion as DataVersion,
)
from brokerd.remoting.admin_bodies import (
    DelayOffsetWrapper as DelayOffsetWrapper,
)
from brokerd.remoting.admin_bodies import (
    GetConsumerStatusBody as GetConsumerStatusBody,
)
from brokerd.remoting.admin_bodies import (
    GroupForbidden as GroupForbidden,
)
from brokerd.remoting.admin_bodies import (
    GroupList as GroupList,
)
from brokerd.remoting.admin_bodies import (
    HAConnectionInfo as HAConnectionInfo,
)
from brokerd.remoting.admin_bodies import (
    HARuntimeInfo as HARuntimeInfo,
)
from brokerd.remoting.admin_bodies import (
    KVTable as KVTable,
)
from brokerd.remoting.admin_bodies import (
    OffsetWrapper as OffsetWrapper,
)
from brokerd.remoting.admin_bodies import (
    ProcessQueueInfo as ProcessQueueInfo,
)
from brokerd.remoting.admin_bodies import (
    ProducerInfo as ProducerInfo,
)
from brokerd.remoting.admin_bodies import (
    ProducerTableInfo as ProducerTableInfo,
)
from brokerd.remoting.admin_bodies import (
    QueryConsumeQueueResponseBody as QueryConsumeQueueResponseBody,
)
from brokerd.remoting.admin_bodies import (
    QueryConsumeTimeSpanBody as QueryConsumeTimeSpanBody,
)
from brokerd.remoting.admin_bodies import (
    QueryCorrectionOffsetBody as QueryCorrectionOffsetBody,
)
from brokerd.remoting.admin_bodies import (
    QueueTimeSpan as QueueTimeSpan,
)
from brokerd.remoting.admin_bodies import (
    ResetOffsetBody as ResetOffsetBody,
)
from brokerd.remoting.admin_bodies import (
    SubscriptionGroupConfig as SubscriptionGroupConfig,
)
from brokerd.remoting.admin_bodies import (
    SubscriptionGroupList as SubscriptionGroupList,
)
from brokerd.remoting.admin_bodies import (
    SubscriptionGroupWrapper as SubscriptionGroupWrapper,
)
from brokerd.remoting.admin_bodies import (
    TimerMetric as TimerMetric,
)
from brokerd.remoting.admin_bodies import (
    TimerMetricsWrapper as TimerMetricsWrapper,
)
from brokerd.remoting.admin_bodies import (
    TopicConfig as TopicConfig,
)
from brokerd.remoting.admin_bodies import (
    TopicConfigSerializeWrapper as TopicConfigSerializeWrapper,
)
from brokerd.remoting.admin_bodies import (
    TopicList as TopicList,
)
from brokerd.remoting.admin_bodies import (
    TopicOffset as TopicOffset,
)
from brokerd.remoting.admin_bodies import (
    TopicStatsTable as TopicStatsTable,
)
from brokerd.remoting.admin_bodies import (
    consumers_in as consumers_in,
)
from brokerd.remoting.admin_bodies import (
    queue_ranges as queue_ranges,
)
from brokerd.remoting.client_bodies import (
    AssignmentBody as AssignmentBody,
)
from brokerd.remoting.client_bodies import (
    BrokerData as BrokerData,
)
from brokerd.remoting.client_bodies import (
    CheckClientRequestBody as CheckClientRequestBody,
)
from brokerd.remoting.client_bodies import (
    ClusterInfo as ClusterInfo,
)
from brokerd.remoting.client_bodies import (
    Connection as Connection,
)
from brokerd.remoting.client_bodies import (
    ConsumeMessageDirectlyResult as ConsumeMessageDirectlyResult,
)
from brokerd.remoting.client_bodies import (
    ConsumerConnection as ConsumerConnection,
)
from brokerd.remoting.client_bodies import (
    ConsumerData as ConsumerData,
)
from brokerd.remoting.client_bodies import (
    ConsumerListBody as ConsumerListBody,
)
from brokerd.remoting.client_bodies import (
    ConsumerRunningInfo as ConsumerRunningInfo,
)
from brokerd.remoting.client_bodies import (
    HeartbeatData as HeartbeatData,
)
from brokerd.remoting.client_bodies import (
    HeartbeatParts as HeartbeatParts,
)
from brokerd.remoting.client_bodies import (
    LockBatchRequestBody as LockBatchRequestBody,
)
from brokerd.remoting.client_bodies import (
    LockBatchResponseBody as LockBatchResponseBody,
)
from brokerd.remoting.client_bodies import (
    MessageQueueAssignment as MessageQueueAssignment,
)
from brokerd.remoting.client_bodies import (
    MessageRequestModeWrapper as MessageRequestModeWrapper,
)
from brokerd.remoting.client_bodies import (
    ProducerConnection as ProducerConnection,
)
from brokerd.remoting.client_bodies import (
    ProducerData as ProducerData,
)
from brokerd.remoting.client_bodies import (
    QueryAssignmentRequestBody as QueryAssignmentRequestBody,
)
from brokerd.remoting.client_bodies import (
    QueryAssignmentResponseBody as QueryAssignmentResponseBody,
)
from brokerd.remoting.client_bodies import (
    QuerySubscriptionResponseBody as QuerySubscriptionResponseBody,
)
from brokerd.remoting.client_bodies import (
    QueueData as QueueData,
)
from brokerd.remoting.client_bodies import (
    RegisterBrokerBody as RegisterBrokerBody,
)
from brokerd.remoting.client_bodies import (
    SetMessageRequestModeRequestBody as SetMessageRequestModeRequestBody,
)
from brokerd.remoting.client_bodies import (
    SubscriptionData as SubscriptionData,
)
from brokerd.remoting.client_bodies import (
    TopicRouteData as TopicRouteData,
)
from brokerd.remoting.client_bodies import (
    UnlockBatchRequestBody as UnlockBatchRequestBody,
)
from brokerd.remoting.client_bodies import (
    part_from as part_from,
)
