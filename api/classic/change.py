"""Changes of the classic dashboard: each is a plan that is applied at once, with its rights, limits and audit."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from api.classic.resource import UNKNOWN, Classic, answer
from api.rest.permissions import require
from api.rest.resource import remote_addr
from console.cluster import selectors as cluster_selectors
from console.group.offsets.targets import OFFSET_MAX
from console.message import services as message_services
from console.message.sending.params import TYPED_BODY_BYTES_MAX
from console.operation import selectors, services
from console.operation.errors import OperationError
from console.operation.models import FINAL_STATES, Job, JobState, Plan
from console.operation.plan import coverage
from console.operation.plan.params import NAME_LENGTH_MAX
from console.operation.plan.places import MessagePlace
from console.text import JsonObject
from console.text.stored import of_json
from console.topic import selectors as topic_selectors
from console.topic.topic_config import MESSAGE_TYPES, PERMISSIONS, QUEUES_MAX

NEWEST = -1  # a reset to this time skips everything
GROUPS_MAX = 20  # of one request: each makes a plan, which reads the brokers
# The dashboard returns when it is done; a worker takes a job up within milliseconds, unless it has others.
WAIT_S = 5.0
POLL_S = 0.05
FAILED_STATUS = 502  # of a job that failed: a broker refused, or did not answer


class ResetRequestSerializer(serializers.Serializer[Any]):
    """A reset as the dashboard requests it; a further `force` has no meaning here."""

    consumerGroupList = serializers.ListField(  # noqa: N815 (the dashboard's names)
        child=serializers.CharField(max_length=255), min_length=1, max_length=GROUPS_MAX
    )
    topic = serializers.CharField(max_length=255)
    resetTime = serializers.IntegerField(min_value=NEWEST, max_value=OFFSET_MAX)  # noqa: N815


class Reset(Classic):
    """`consumer/resetOffset.do` and `consumer/skipAccumulate.do`: a plan for each group, applied at once.

    A plan that is blocked, or large enough to need a typed name or a second person, is refused by its group; it can
    be applied on its page. The job runs after the response: `job` is its id.
    """

    verbs: ClassVar[dict[str, str]] = {"POST": "RESET"}
    asks_brokers = True

    @extend_schema(exclude=True)
    def post(self, request: Request, cluster: str) -> Response:
        wanted = ResetRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        groups, topic = wanted.validated_data["consumerGroupList"], wanted.validated_data["topic"]
        for group in groups:
            require(request.user, "RESET", cluster, group)
        cluster_selectors.cluster_by_name(cluster)
        time_ms: int = wanted.validated_data["resetTime"]
        target: JsonObject = (
            {"target": "latest"} if time_ms == NEWEST else {"target": "time", "time_ms": time_ms}
        )
        return answer(
            {group: _reset(request, cluster, group, {**target, "topics": [topic]}) for group in groups}
        )


class TopicConfigSerializer(serializers.Serializer[Any]):
    """Settings of a topic as the dashboard requests them; `clusterNameList` has no meaning here."""

    topicName = serializers.CharField(max_length=NAME_LENGTH_MAX)  # noqa: N815 (the dashboard's names)
    brokerNameList = serializers.ListField(  # noqa: N815
        child=serializers.CharField(max_length=NAME_LENGTH_MAX), required=False, allow_null=True
    )
    writeQueueNums = serializers.IntegerField(min_value=1, max_value=QUEUES_MAX, required=False)  # noqa: N815
    readQueueNums = serializers.IntegerField(min_value=1, max_value=QUEUES_MAX, required=False)  # noqa: N815
    perm = serializers.ChoiceField(choices=list(PERMISSIONS), required=False)
    order = serializers.BooleanField(required=False)
    messageType = serializers.ChoiceField(  # noqa: N815
        choices=MESSAGE_TYPES, required=False, allow_blank=True, allow_null=True
    )


class TopicCreateOrUpdate(Classic):
    """`topic/createOrUpdate.do`: on the brokers of `brokerNameList`, or on all of the cluster.

    A topic that has these settings already is no refusal: ``plan`` and ``job`` are null.
    """

    verbs: ClassVar[dict[str, str]] = {"POST": "CONFIGURE"}
    asks_brokers = True

    @extend_schema(exclude=True)
    def post(self, request: Request, cluster: str) -> Response:
        wanted = TopicConfigSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        given = wanted.validated_data
        topic = given["topicName"]
        require(request.user, "CONFIGURE", cluster, topic)
        cluster_selectors.cluster_by_name(cluster)
        params = {
            "brokers": given.get("brokerNameList"),
            "write_queues": given.get("writeQueueNums"),
            "read_queues": given.get("readQueueNums"),
            "perm": given.get("perm"),
            "order": given.get("order"),
            "message_type": given.get("messageType"),
        }
        params = {name: value for name, value in params.items() if value not in (None, "", [])}
        row = topic_selectors.topic(cluster, topic)
        is_there = row is not None and set(params.get("brokers", row.brokers)) <= set(row.brokers)
        plan = _plan(request, "topic_change" if is_there else "topic_create", cluster, topic, params)
        if _changes_nothing(plan):
            services.discard_plan(plan.id, request.user, remote_addr=remote_addr(request))
            return answer({"plan": None, "job": None, "state": JobState.SUCCEEDED})
        job = _ended(_job(request, plan))
        return answer({"plan": plan.id, "job": job.id, "state": job.state})


class SendRequestSerializer(serializers.Serializer[Any]):
    """A message as the dashboard requests it; `traceEnabled` has no meaning here."""

    topic = serializers.CharField(max_length=NAME_LENGTH_MAX)
    key = serializers.CharField(required=False, allow_blank=True, allow_null=True, max_length=1_000)
    tag = serializers.CharField(required=False, allow_blank=True, allow_null=True, max_length=255)
    messageBody = serializers.CharField(max_length=TYPED_BODY_BYTES_MAX, trim_whitespace=False)  # noqa: N815


class Send(Classic):
    """`topic/sendTopicMessage.do`: ``sendStatus`` null is a job that goes on; follow it, and do not send again."""

    verbs: ClassVar[dict[str, str]] = {"POST": "SEND"}
    asks_brokers = True

    @extend_schema(exclude=True)
    def post(self, request: Request, cluster: str) -> Response:
        wanted = SendRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        given = wanted.validated_data
        topic = given["topic"]
        require(request.user, "SEND", cluster, topic)
        cluster_selectors.cluster_by_name(cluster)
        params = {"body": given["messageBody"], "keys": given.get("key"), "tags": given.get("tag")}
        plan = _plan(request, "message_send", cluster, topic, params)
        job = _ended(_job(request, plan))
        return answer({**_send_result(job), "plan": plan.id, "job": job.id})


class NotDone(APIException):
    """A change that was planned and not made."""

    default_code = "not_done"

    def __init__(self, detail: str, status: int) -> None:
        super().__init__(detail)
        self.status_code = status


def _plan(request: Request, kind: str, cluster: str, subject: str, params: JsonObject) -> Plan:
    addr = remote_addr(request)
    return services.create_plan(kind, cluster, subject, params, request.user, remote_addr=addr)


def _job(request: Request, plan: Plan) -> Job:
    """Apply a plan; raises NotDone, which names the plan: it can be applied on its page."""
    try:
        return services.apply_plan(plan.id, request.user, remote_addr=remote_addr(request))
    except OperationError as error:
        raise NotDone(f"{error} Nothing was changed; the plan is {plan.id}.", error.status) from error


def _ended(job: Job) -> Job:
    """Return a job when it is over, or as it is after WAIT_S. Raises NotDone for one that failed."""
    until_s = time.monotonic() + WAIT_S
    found = selectors.job(job.id)
    while found.state not in FINAL_STATES and time.monotonic() < until_s:
        time.sleep(POLL_S)
        found = selectors.job(job.id)
    if found.state in FINAL_STATES - {JobState.SUCCEEDED}:
        words = f"Job {found.id} of plan {found.plan_id} ended as {found.state}. {found.error}"
        raise NotDone(words.strip(), FAILED_STATUS)
    return found


def _changes_nothing(plan: Plan) -> bool:
    kept = coverage.of_plan(plan)
    is_whole = kept is None or not kept.absent
    return is_whole and all(row["before"] == row["after"] for row in plan.diff)


def _send_result(job: Job) -> JsonObject:
    """Return where the message is stored; all null while the job goes on."""
    if job.state != JobState.SUCCEEDED:
        return dict.fromkeys(("sendStatus", "msgId", "offsetMsgId", "messageQueue", "queueOffset"))
    place = of_json(MessagePlace, job.result)
    found = message_services.record_at(
        job.cluster, place.topic, place.broker_name, place.queue_id, place.queue_offset
    )
    return {
        "sendStatus": "SEND_OK",
        "msgId": None if found is None else found.record.message_id,
        "offsetMsgId": None if found is None else found.record.offset_message_id,
        "messageQueue": {
            "topic": place.topic,
            "brokerName": place.broker_name,
            "queueId": place.queue_id,
        },
        "queueOffset": place.queue_offset,
    }


def _reset(request: Request, cluster: str, group: str, params: JsonObject) -> JsonObject:
    try:
        plan = _plan(request, "offset_change", cluster, group, params)
        job = _job(request, plan)
    except (OperationError, NotDone) as error:
        return {"status": False, "errMsg": str(error), "rollbackStatsList": []}
    rows = [
        {
            "brokerName": row["broker_name"],
            "queueId": row["queue_id"],
            "consumerOffset": UNKNOWN if row["before"] is None else row["before"],
            "rollbackOffset": row["after"],
        }
        for row in plan.diff
    ]
    return {"status": True, "errMsg": None, "rollbackStatsList": rows, "plan": plan.id, "job": job.id}
