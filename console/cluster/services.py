"""Add, change and remove clusters. An address is probed before it is stored."""

import logging
import os
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from console.access.services import record_audit
from console.brokers.mqadmin import (
    BrokerUnavailable,
    MQBrokerError,
    MQClientError,
    RemotingError,
    RemotingTimeout,
    ask_once,
    split_addrs,
)
from console.cluster.errors import (
    ClusterError,
    ClusterIsEmbedded,
    ClusterNameInvalid,
    ClusterNameTaken,
    ClusterSettingInvalid,
    NameServerAddressInvalid,
    NameServerUnreachable,
    TooManyProbes,
)
from console.cluster.models import Cluster
from console.text import Text, text_of
from console.web import quota
from console.web.inner_address import leads_to_machine_secrets

logger = logging.getLogger(__name__)

__all__ = [
    "ClusterError",
    "add_cluster",
    "checked_addrs",
    "probe",
    "register_embedded",
    "remove_cluster",
]

EMBEDDED_NAME = "local"
CHANGEABLE = frozenset(
    {"namesrv_addrs", "is_production", "typed_confirm_messages", "second_person_messages", "poll_interval_s"}
)
# More name servers than any cluster has; each is probed when the cluster is added.
NAMESRV_MAX = 16
# Of all of them together.
PROBE_DEADLINE_MS = 5_000
# This machine connects to the address that was typed, and the answer reveals what listens there: a person adds
# clusters a few times a day, a port scan probes thousands of times.
PROBES_A_MINUTE_MAX = 10


def add_cluster(
    name: str, namesrv_addrs: str, actor: Any, *, is_production: bool = False, remote_addr: str = ""
) -> Cluster:
    """Add a cluster. Every address must be a name server that answers and has a broker registered.

    Raises ClusterNameInvalid, ClusterNameTaken, NameServerAddressInvalid, NameServerUnreachable, TooManyProbes.
    Unreachable name servers are audited too.
    """
    cluster = Cluster(name=name, namesrv_addrs=checked_addrs(namesrv_addrs), is_production=is_production)
    try:
        cluster.clean_fields()
    except ValidationError as error:
        raise ClusterNameInvalid(Text.of_parts([text_of(message) for message in error.messages])) from error
    if Cluster.objects.filter(name=name).exists():
        raise ClusterNameTaken(Text("There is a cluster %(name)s already.", name=name))
    try:
        brokers = probe(cluster.namesrv_addrs)
    except NameServerUnreachable as refusal:
        record_audit(
            actor=actor,
            verb="cluster not added",
            subject=name,
            after={"namesrv_addrs": cluster.namesrv_addrs, "reason": str(refusal)},
            remote_addr=remote_addr,
        )
        raise
    try:
        with transaction.atomic():
            cluster.save(force_insert=True)
            after = {"namesrv_addrs": cluster.namesrv_addrs, "brokers": brokers}
            record_audit(
                actor=actor,
                verb="add cluster",
                cluster=name,
                subject=name,
                after=after,
                remote_addr=remote_addr,
            )
    except IntegrityError as error:
        raise ClusterNameTaken(Text("There is a cluster %(name)s already.", name=name)) from error
    return cluster


def change_cluster(name: str, actor: Any, *, remote_addr: str = "", **changes: Any) -> Cluster:
    """Change settings of a cluster; new name servers must answer. Raises Cluster.DoesNotExist, ClusterError."""
    unknown = set(changes) - CHANGEABLE
    assert not unknown, unknown
    if "namesrv_addrs" in changes:
        changes = {**changes, "namesrv_addrs": checked_addrs(changes["namesrv_addrs"])}
        probe(changes["namesrv_addrs"])
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(name=name)
        before = {field: getattr(cluster, field) for field in changes}
        for field, value in changes.items():
            setattr(cluster, field, value)
        try:
            cluster.full_clean()
        except ValidationError as error:
            raise ClusterSettingInvalid(
                Text.of_parts([text_of(message) for message in error.messages])
            ) from error
        cluster.save()
        record_audit(
            actor=actor,
            verb="change cluster",
            cluster=name,
            subject=name,
            before=before,
            after=dict(changes),
            remote_addr=remote_addr,
        )
    return cluster


def remove_cluster(name: str, actor: Any, *, remote_addr: str = "") -> None:
    """Remove a cluster from the console; the cluster itself is not touched.

    Raises Cluster.DoesNotExist, ClusterIsEmbedded.
    """
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(name=name)
        if cluster.is_embedded:
            raise ClusterIsEmbedded(
                Text(
                    "%(name)s is the broker that this installation runs; `manage.py up` would add it again.",
                    name=name,
                )
            )
        before = {"namesrv_addrs": cluster.namesrv_addrs}
        cluster.delete()
        record_audit(
            actor=actor,
            verb="remove cluster",
            cluster=name,
            subject=name,
            before=before,
            remote_addr=remote_addr,
        )


def register_embedded(namesrv_addrs: str) -> Cluster:
    """Store the current name server of the embedded broker; `up` calls this at every start."""
    with transaction.atomic():
        embedded = Cluster.objects.filter(is_embedded=True).first()
        if embedded is None:
            name = EMBEDDED_NAME
            while Cluster.objects.filter(name=name).exists():
                # The name "local" may belong to another cluster.
                name += "-embedded"
            embedded = Cluster(name=name, is_embedded=True)
        if embedded.namesrv_addrs != namesrv_addrs:
            embedded.namesrv_addrs = namesrv_addrs
            embedded.save()
    return embedded


def checked_addrs(namesrv_addrs: str) -> str:
    """Normalize "a:9876, b:9876" to "a:9876;b:9876". Raises NameServerAddressInvalid."""
    addrs = list(dict.fromkeys(split_addrs(namesrv_addrs)))
    if not addrs:
        raise NameServerAddressInvalid(Text("Give the address of a name server, for example 10.0.0.5:9876."))
    if len(addrs) > NAMESRV_MAX:
        raise NameServerAddressInvalid(
            Text("At most %(most)s name servers; %(number)s were given.", most=NAMESRV_MAX, number=len(addrs))
        )
    for addr in addrs:
        host, colon, port = addr.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise NameServerAddressInvalid(
                Text("%(addr)s is not host:port, for example 10.0.0.5:9876.", addr=addr)
            )
    return ";".join(addrs)


def probe(namesrv_addrs: str) -> list[str]:
    """Request the cluster of each name server (106) and return the names of all their brokers, sorted.

    Raises TooManyProbes, and NameServerUnreachable with the problem and the address.
    """
    wait_s = quota.take("probes", most=PROBES_A_MINUTE_MAX)
    if wait_s:
        raise TooManyProbes(wait_s)
    logger.info("asking name servers addrs=%s", namesrv_addrs)
    for addr in split_addrs(namesrv_addrs):
        if leads_to_machine_secrets(addr.rpartition(":")[0]):
            raise NameServerUnreachable(
                Text(
                    "%(name)s is link-local or a cloud's metadata address: no request is sent to it.",
                    name=addr,
                )
            )
    brokers: set[str] = set()
    answers = ask_once(split_addrs(namesrv_addrs), lambda admin: admin.cluster_info(), PROBE_DEADLINE_MS)
    for addr, answer in answers.items():
        if isinstance(answer, Exception):
            raise NameServerUnreachable(_reason(addr, answer)) from answer
        if not answer.broker_addr_table:
            raise NameServerUnreachable(
                Text(
                    "%(addr)s answers as a name server but no broker has registered with it. Is it in the brokers' "
                    "namesrvAddr?",
                    addr=addr,
                )
            )
        brokers |= set(answer.broker_addr_table)
    return sorted(brokers)


def _reason(addr: str, error: Exception) -> Text:
    if isinstance(error, RemotingTimeout):
        return Text(
            "%(addr)s accepted the connection but did not answer within %(number)s s: it is probably not a "
            "RocketMQ name server (the usual port is 9876).",
            addr=addr,
            number=PROBE_DEADLINE_MS // 1000,
        )
    if isinstance(error, BrokerUnavailable):
        return Text(
            "%(addr)s: %(why)s. Is this the name server's address, and may this machine reach it?",
            addr=addr,
            why=_why(error),
        )
    if isinstance(error, MQBrokerError):
        return Text(
            "%(addr)s uses the RocketMQ protocol but refused the request: %(remark)s (code %(code)s). Is "
            "it a broker's port? A name server's port is usually 9876.",
            addr=addr,
            remark=error.remark,
            code=str(error.code),
        )
    if isinstance(error, MQClientError | RemotingError):
        return Text("%(addr)s does not use the remoting protocol: %(why)s", addr=addr, why=text_of(error))
    return Text("%(name)s: %(reason)s", name=addr, reason=text_of(error))


def _why(error: BrokerUnavailable) -> Text:
    """Return the operating system's own message if there is one: asyncio hides "Connection refused"."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return Text("cannot connect: %(why)s", why=os.strerror(cause.errno))
    return text_of(error.reason)
