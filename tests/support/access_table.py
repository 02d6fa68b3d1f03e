"""The rights for every page, REST endpoint, socket subject, kind of plan and task, as data.

`tests/test_access_of_routes.py` checks all of it, and fails for a route that is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Who has access: everyone · a signed-in person · a person who may see any name of the cluster (rows of others are left
# out) · one with the verb on the whole cluster · one with the verb on the name in the address.
OPEN, PERSON, SOME, WHOLE, NAMED = "open", "person", "some", "whole", "named"
# Names that a person of another name must read nowhere.
HIDDEN = ("analytics", "billing", "notifier", "fraud", "orders", "op-sample", "job-sample")


class Route(NamedTuple):
    """GET and POST: who has access, and the verb it needs.

    `whole` routes are of the cluster, `named` of `name`.
    """

    get: tuple[str, str] | None = None
    post: tuple[str, str] | None = None
    delete: tuple[str, str] | None = None
    body: Mapping[str, Any] = {}
    query: Mapping[str, str] = {}

    def methods(self) -> set[str]:
        return {name for name, who in zip(("GET", "POST", "DELETE"), self[:3], strict=True) if who}


def view(who: str) -> Route:
    return Route(get=(who, "VIEW"))


def change(verb: str, who: str = NAMED, **body: Any) -> Route:
    return Route(post=(who, verb), body=body)


def form(verb: str, who: str = NAMED, reader: tuple[str, str] | None = None, **body: Any) -> Route:
    """A page with a form: shown to who may send it, or to `reader`."""
    return Route(get=reader or (who, verb), post=(who, verb), body=body)


NEW_TOPIC = {"name": "fresh", "brokers": "broker-a", "read_queues": 1, "write_queues": 1, "perm": 6}
NEW_GROUP = {"name": "fresh", "brokers": "broker-a", "retry_max_times": 1, "retry_queues": 1}
PAGES = {
    "sign-in": Route(get=(OPEN, ""), post=(OPEN, "")),
    "sign-in-link": Route(get=(OPEN, ""), post=(OPEN, "")),
    "sign-out": Route(post=(PERSON, "")),
    "set-password": Route(get=(PERSON, ""), post=(PERSON, "")),
    "columns": Route(post=(PERSON, ""), body={"of": 12, "on": "3"}),
    "language": Route(post=(OPEN, ""), body={"language": "zh-hans", "next": "/"}),
    "script-words": Route(get=(OPEN, "")),
    "tokens": Route(get=(PERSON, ""), post=(PERSON, "")),
    "token-revoke": Route(post=(PERSON, "")),
    "activity": view(WHOLE),
    "home": view(PERSON),
    "clusters": Route(get=(PERSON, ""), post=(WHOLE, "ADMIN")),
    "fleet": view(PERSON),
    "connection": form("ADMIN", WHOLE, namesrv_addrs="127.0.0.1:1"),
    "overview": view(SOME),
    "jump": view(SOME),
    "brokers": view(SOME),
    "broker": view(SOME),
    "broker-config": form("CONFIGURE"),
    "broker-drain": change("CONFIGURE"),
    "broker-restore": form("RESET", WHOLE),
    "name-servers": view(WHOLE),
    "broker-acl": Route(get=(WHOLE, "CONFIGURE")),
    "acl-change": form("ADMIN", WHOLE, name="somebody"),
    "acl-white-addresses": form("ADMIN", WHOLE, addresses="192.0.2.7"),
    "topics": view(SOME),
    "topic-create": form("CONFIGURE", reader=(SOME, "VIEW"), **NEW_TOPIC),
    "topic": view(NAMED),
    "topic-change": form("CONFIGURE"),
    "topic-delete": form("CONFIGURE"),
    "topic-release": change("CONFIGURE"),
    "groups": view(SOME),
    "clients": view(SOME),
    "group": view(NAMED),
    "group-client": view(NAMED),
    "rebalance": view(SOME),
    "rebalance-group": form("CONFIGURE", reader=(NAMED, "VIEW")),
    "group-watch": change("VIEW"),
    "offset-change": form("RESET"),
    "offset-file": view(NAMED),
    "offset-import": form("RESET"),
    "queue-history": view(NAMED),
    "client-offsets": view(NAMED),
    "group-create": form("CONFIGURE", reader=(SOME, "VIEW"), **NEW_GROUP),
    "group-settings": form("CONFIGURE", reader=(NAMED, "VIEW")),
    "group-delete": form("CONFIGURE"),
    "group-release": change("CONFIGURE"),
    "group-pause": form("CONFIGURE", reader=(NAMED, "VIEW"), action="pause"),
    "group-resume": change("CONFIGURE"),
    "group-mode": form("CONFIGURE", reader=(NAMED, "VIEW")),
    "messages": view(SOME),
    "message-compare": view(SOME),
    "message-export": view(WHOLE),
    "message-save": Route(post=(SOME, "VIEW"), body={"name": "mine", "address": "topic=orders"}),
    "message-send": form("SEND", WHOLE, reader=(WHOLE, "VIEW"), topic="orders", encoding="text", body="x"),
    "message-schema": form("CONFIGURE", WHOLE),
    # POST shows masked fields, which needs UNMASK on the topic of the message that is found.
    "message": Route(get=(SOME, "VIEW"), post=(SOME, "VIEW")),
    "dead-letters": view(SOME),
    "dead-letter-group": form("REPLAY", reader=(NAMED, "VIEW")),
    "dead-letter-readable": change("CONFIGURE"),
    "dead-letter-export": view(NAMED),
    "dead-letter-ledger": view(NAMED),
    "operations": view(SOME),
    "job": view(NAMED),
    "job-control": change("RESET"),
    "plan": view(NAMED),
    "plan-apply": change("RESET"),
    "plan-action": change("RESET"),
    "reports": view(SOME),
    "group-report": view(NAMED),
    "group-slo": change("CONFIGURE"),
    "report": view(SOME),
    "report-run": change("REPORT", WHOLE),
    "report-schedule": change("CONFIGURE", WHOLE),
    "report-download": view(SOME),
    "tour-close": Route(post=(PERSON, "")),
    "demo-broker": change("CONFIGURE", WHOLE, off="1"),
    "demo-week-delete": change("ADMIN", WHOLE),
}
CLASSIC_RESET = {"consumerGroupList": ["billing"], "topic": "orders", "resetTime": -1}
REST = {
    "api-clusters": Route(
        get=(PERSON, ""), post=(WHOLE, "ADMIN"), body={"name": "new", "namesrv_addrs": "127.0.0.1:1"}
    ),
    "api-cluster": view(WHOLE),
    "api-connection": form("ADMIN", WHOLE, namesrv_addrs="127.0.0.1:1"),
    "api-connection-test": change("ADMIN", WHOLE),
    "api-brokers": view(SOME),
    "api-broker": view(SOME),
    "api-broker-runtime": view(WHOLE),
    "api-broker-config": view(WHOLE),
    "api-broker-restore": form("RESET", WHOLE, time_ms=1),
    "api-broker-restore-apply": change("RESET", WHOLE, time_ms=1, confirm_text="test"),
    "api-config-differences": view(WHOLE),
    "api-name-servers": view(WHOLE),
    "api-acl": Route(get=(WHOLE, "CONFIGURE")),
    "api-route-differences": view(WHOLE),
    "api-group-settings": view(NAMED),
    "api-topic-config": view(NAMED),
    "api-topic-producers": view(NAMED),
    "api-topic-quarantine": view(NAMED),
    "api-topics": view(SOME),
    "api-topic": view(NAMED),
    "api-topic-queues": view(NAMED),
    "api-topic-groups": view(NAMED),
    "api-groups": view(SOME),
    "api-group": view(NAMED),
    "api-group-client-running-info": view(NAMED),
    "api-group-flow": view(NAMED),
    "api-group-pauses": view(NAMED),
    "api-group-queues": view(NAMED),
    "api-group-offsets": view(NAMED),
    "api-group-owner-history": view(NAMED),
    "api-group-queue-history": view(NAMED),
    "api-group-client-offsets": view(NAMED),
    "api-clients": view(SOME),
    "api-group-assignments": view(NAMED),
    "api-rebalance": view(SOME),
    "api-group-ownership": view(NAMED),
    "api-group-simulation": Route(get=(NAMED, "VIEW"), query={"topic": "orders"}),
    "api-group-clients": view(NAMED),
    "api-group-lag": view(NAMED),
    "api-group-latency": view(NAMED),
    "api-group-throughput": view(NAMED),
    "api-group-by-client": view(NAMED),
    "api-messages": view(NAMED),
    "api-message-stream": view(NAMED),
    "api-message-tail": view(NAMED),
    "api-message-export": view(NAMED),
    "api-message": view(NAMED),
    "api-send-plans": change("SEND", topic="orders", body="x"),
    "api-replay-plans": change("REPLAY", group="billing", target="failed_group"),
    "api-dlq-readable-plans": change("CONFIGURE", group="billing"),
    "api-dead-letters": view(SOME),
    "api-dead-letter-group": view(NAMED),
    "api-ledger": view(NAMED),
    "api-offset-plans": change("RESET", group="billing", target="latest"),
    "api-config-plans": change("CONFIGURE", kind="topic_create", subject="orders"),
    "api-plans": view(SOME),
    "api-jobs": view(SOME),
    "api-plan": view(NAMED),
    "api-plan-apply": change("RESET"),
    "api-plan-undo": change("RESET"),
    "api-plan-discard": change("RESET"),
    "api-plan-approve": change("RESET"),
    "api-job": view(NAMED),
    "api-job-pause": change("RESET"),
    "api-job-resume": change("RESET"),
    "api-job-cancel": change("RESET"),
    "api-job-rate": change("RESET", rate_per_s=5),
    "api-episodes": view(SOME),
    "api-facts": view(SOME),
    "api-findings": view(SOME),
    "api-group-findings": view(NAMED),
    "api-topic-findings": view(NAMED),
    "api-report-runs": view(SOME),
    "api-report-job-runs": change("REPORT", WHOLE),
    "api-report-rows": view(SOME),
    "api-report-rows-csv": view(SOME),
    "api-report-run": view(SOME),
    "api-report-schedules": view(WHOLE),
    "api-report-schedule": change("CONFIGURE", WHOLE),
    "api-group-slo": Route(
        get=(NAMED, "VIEW"),
        post=(NAMED, "CONFIGURE"),
        delete=(NAMED, "CONFIGURE"),
        body={"slo_ms": 1, "target": 0.9},
    ),
    "api-report-lines": view(SOME),
    "api-group-latency-heat": view(NAMED),
    "api-group-retention-room": view(NAMED),
    "api-report-export": view(SOME),
    "api-classic-topics": view(SOME),
    "api-classic-topic-stats": Route(get=(NAMED, "VIEW"), query={"topic": "orders"}),
    "api-classic-topic-consumers": Route(get=(NAMED, "VIEW"), query={"topic": "orders"}),
    "api-classic-groups": view(SOME),
    "api-classic-group": Route(get=(NAMED, "VIEW"), query={"consumerGroup": "billing"}),
    "api-classic-group-topics": Route(get=(NAMED, "VIEW"), query={"consumerGroup": "billing"}),
    "api-classic-reset": change("RESET", **CLASSIC_RESET),
    "api-classic-skip": change("RESET", **CLASSIC_RESET),
    "api-classic-topic-change": change("CONFIGURE", topicName="orders", perm=6),
    "api-classic-send": change("SEND", topic="orders", messageBody="{}"),
    "api-classic-by-key": Route(get=(NAMED, "VIEW"), query={"topic": "orders", "key": "4711"}),
    "api-classic-by-id": Route(get=(NAMED, "VIEW"), query={"topic": "orders", "msgId": "x"}),
    "api-classic-by-time": Route(get=(NAMED, "VIEW"), query={"topic": "orders"}),
    "api-stream": Route(get=(PERSON, "VIEW")),
    "api-tokens": Route(get=(PERSON, ""), post=(PERSON, "")),
    "api-token": Route(delete=(PERSON, "")),
    "api-audit": view(WHOLE),
    "api-schema": Route(get=(PERSON, "")),
    "api-docs": Route(get=(PERSON, "")),
}
TABLE = PAGES | REST
# Addresses without a name: everything else under /api/v1 is a 404 document, and Django's admin asks for staff.
NAMELESS = {"api/v1/<path:rest>", "admin/login/"}

# --- Live subjects: who receives their rows, as above; ROWS: any signed-in person may subscribe, each row is checked
# by its cluster and subject.
ROWS = "rows"
SUBJECTS = {
    "c/{}/collector": SOME,
    "c/{}/counts": WHOLE,
    "c/{}/brokers": WHOLE,
    "c/{}/groups": SOME,
    "c/{}/topics": SOME,
    "c/{}/group/{}": NAMED,
    "c/{}/reports": SOME,
    "jobs": ROWS,
    "job/{}": ROWS,
    "approvals": ROWS,
}
PUBLISHERS = {"lag/services.py", "operation/journal.py", "report/services.py"}
# --- Plans: what planning, applying, approving, undoing and discarding one takes, on the name it is about.
KINDS = {
    "offset_change": "RESET",
    "dead_letter_replay": "REPLAY",
    "dlq_readable": "CONFIGURE",
    "topic_create": "CONFIGURE",
    "topic_change": "CONFIGURE",
    "topic_quarantine": "CONFIGURE",
    "topic_release": "CONFIGURE",
    "topic_delete": "CONFIGURE",
    "topic_force_delete": "ADMIN",
    "group_create": "CONFIGURE",
    "group_change": "CONFIGURE",
    "group_quarantine": "CONFIGURE",
    "group_release": "CONFIGURE",
    "group_delete": "CONFIGURE",
    "group_force_delete": "ADMIN",
    "group_pause": "CONFIGURE",
    "group_resume": "CONFIGURE",
    "group_mode": "CONFIGURE",
    "group_placement": "CONFIGURE",
    "broker_config_change": "CONFIGURE",
    "broker_drain": "CONFIGURE",
    **dict.fromkeys(
        (
            *(
                f"acl_{what}_{step}"
                for what in ("account", "user")
                for step in ("create", "change", "delete")
            ),
            "acl_white_addresses",
        ),
        "ADMIN",
    ),
    "message_send": "SEND",
}
# --- Tasks: what starts them. BEAT and OTHER tasks take nothing from a person; the rest run what a route above let in.
BEAT, TASK = "beat", "another task"
TASKS = {
    "console.celery.tick": BEAT,
    "console.broker.tasks.survey_due": BEAT,
    "console.broker.tasks.survey": TASK,
    "console.lag.tasks.collect_due": BEAT,
    "console.lag.tasks.collect": TASK,
    "console.lag.tasks.sweep_clients": TASK,
    "console.lag.tasks.compact_history": BEAT,
    "console.lag.tasks.tend_own_log": TASK,
    "console.group.tasks.survey_refusals": BEAT,
    "console.group.tasks.survey_cluster_refusals": TASK,
    "console.operation.tasks.recover_jobs": BEAT,
    "console.operation.tasks.run_job": "api-plan-apply",
    "console.deadletter.tasks.survey": BEAT,
    "console.deadletter.tasks.survey_cluster": TASK,
    "console.deadletter.tasks.prune_ledger": BEAT,
    "console.rebalance.tasks.rebalance": BEAT,
    "console.rebalance.tasks.rebalance_cluster": TASK,
    "console.report.tasks.fire_due": BEAT,
    "console.report.tasks.recover_runs": BEAT,
    "console.report.tasks.run_report": "api-report-job-runs",
    "console.report.tasks.deliver": TASK,
}
VERBS = ("VIEW", "SEND", "RESET", "REPLAY", "REPORT", "UNMASK", "CONFIGURE", "ADMIN")
