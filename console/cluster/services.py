"""Add, change and remove clusters. An address is probed before it is stored."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from console.access.services import record_audit
from console.brokers.mqadmin import (
    Connection,
    InvalidClientConfig,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    RemotingError,
    ask_once,
    split_addrs,
)
from console.cluster.connection_change import SECRETS, STORED, ConnectionChange
from console.cluster.diagnosis import OF_SETTINGS, Fault, Finding, finding_of
from console.cluster.errors import (
    ClusterError,
    ClusterIsEmbedded,
    ClusterNameInvalid,
    ClusterNameTaken,
    ClusterSettingInvalid,
    ConnectionRefused,
    ConnectionSettingInvalid,
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
    "check_connection",
    "checked_addrs",
    "probe",
    "register_embedded",
    "remove_cluster",
]

EMBEDDED_NAME = "local"
CHANGEABLE = frozenset(
    {"is_production", "typed_confirm_messages", "second_person_messages", "poll_interval_s"}
)
REPLACED = "replaced"
NO_CHANGE = ConnectionChange()
# More name servers than any cluster has; each is probed when the cluster is added.
NAMESRV_MAX = 16
# Of all of them together.
PROBE_DEADLINE_MS = 5_000
# This machine connects to the address that was typed, and the answer reveals what listens there: a person adds
# clusters a few times a day, a port scan probes thousands of times.
PROBES_A_MINUTE_MAX = 10


# What each round reads of a broker, by the name of its request.
ROUND_READS: dict[str, Callable[[MQAdmin, str], Awaitable[object]]] = {
    "GET_BROKER_RUNTIME_INFO": MQAdmin.runtime_info,
    "GET_ALL_TOPIC_CONFIG": MQAdmin.all_topic_config,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": MQAdmin.all_subscription_groups,
    "GET_ALL_CONSUMER_OFFSET": MQAdmin.all_consumer_offsets_body,
}


def add_cluster(
    name: str,
    namesrv_addrs: str,
    actor: Any,
    *,
    is_production: bool = False,
    connection: ConnectionChange = NO_CHANGE,
    remote_addr: str = "",
) -> Cluster:
    """Add a cluster. Every address must be a name server that answers and has a broker registered.

    Raises ClusterNameInvalid, ClusterNameTaken, NameServerAddressInvalid, NameServerUnreachable, ConnectionRefused,
    ConnectionSettingInvalid, TooManyProbes. Unreachable name servers and refusals are audited too.
    """
    cluster = Cluster(name=name, namesrv_addrs=checked_addrs(namesrv_addrs), is_production=is_production)
    try:
        cluster.clean_fields()
    except ValidationError as error:
        raise ClusterNameInvalid(Text.of_parts([text_of(message) for message in error.messages])) from error
    if Cluster.objects.filter(name=name).exists():
        raise ClusterNameTaken(Text("A cluster %(name)s exists already.", name=name))
    connection.apply_to(cluster)
    facts = {"namesrv_addrs": cluster.namesrv_addrs, **connection.audited(cluster)}
    try:
        brokers = probe(cluster.connection)
    except (NameServerUnreachable, ConnectionRefused) as refusal:
        record_audit(
            actor=actor,
            verb="cluster not added",
            subject=name,
            after={**facts, "reason": str(refusal)},
            remote_addr=remote_addr,
        )
        raise
    try:
        with transaction.atomic():
            cluster.save(force_insert=True)
            record_audit(
                actor=actor,
                verb="add cluster",
                cluster=name,
                subject=name,
                after={**facts, "brokers": brokers},
                remote_addr=remote_addr,
            )
    except IntegrityError as error:
        raise ClusterNameTaken(Text("A cluster %(name)s exists already.", name=name)) from error
    return cluster


def change_cluster(
    name: str, actor: Any, *, connection: ConnectionChange = NO_CHANGE, remote_addr: str = "", **changes: Any
) -> Cluster:
    """Change settings of a cluster; with another connection, name servers must answer and none may refuse it.

    Raises Cluster.DoesNotExist, ClusterError.
    """
    unknown = set(changes) - CHANGEABLE
    assert not unknown, unknown
    if connection.namesrv_addrs is not None:
        connection = replace(connection, namesrv_addrs=checked_addrs(connection.namesrv_addrs))
    if connection.names():
        planned = Cluster.objects.get(name=name)
        connection.apply_to(planned)
        probe(planned.connection)
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(name=name)
        before = {**{field: getattr(cluster, field) for field in changes}, **connection.audited(cluster)}
        for field, value in changes.items():
            setattr(cluster, field, value)
        connection.apply_to(cluster)
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
            after={**changes, **_after(connection.audited(cluster), before)},
            remote_addr=remote_addr,
        )
    return cluster


def _after(audited: dict[str, str | bool], before: Mapping[str, object]) -> dict[str, str | bool]:
    """Return what was changed to; a secret that took the place of another one is marked."""
    return {
        name: REPLACED if name in SECRETS and value == before[name] == STORED else value
        for name, value in audited.items()
    }


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
        raise NameServerAddressInvalid(Text("Enter the address of a name server, for example 10.0.0.5:9876."))
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


def probe(connection: Connection) -> list[str]:
    """Request the cluster of each name server (106) and return the names of all their brokers, sorted.

    Raises TooManyProbes, NameServerUnreachable with the problem and the address, and ConnectionRefused if a name server
    or broker refuses TLS or keys. Brokers that cannot be reached, and rights that are missing, are no refusal.
    """
    look = _look(connection)
    for finding in look.of_name_servers:
        kind = ConnectionRefused if finding.fault in OF_SETTINGS else NameServerUnreachable
        raise kind(finding.text)
    for finding in look.of_brokers:
        if finding.fault in OF_SETTINGS:
            raise ConnectionRefused(finding.text)
    return sorted(look.brokers)


def check_connection(connection: Connection) -> Sequence[Finding]:
    """Return everything that is wrong with a connection, also rights that a round needs; empty: nothing is.

    Raises TooManyProbes, ConnectionSettingInvalid.
    """
    look = _look(connection)
    return (*look.of_name_servers, *look.of_brokers)


@dataclass(frozen=True, slots=True)
class _Look:
    """What name servers and the masters they name have answered."""

    brokers: frozenset[str]
    of_name_servers: Sequence[Finding]
    of_brokers: Sequence[Finding]


def _look(connection: Connection) -> _Look:
    wait_s = quota.take("probes", most=PROBES_A_MINUTE_MAX)
    if wait_s:
        raise TooManyProbes(wait_s)
    logger.info("probing addrs=%s", connection.namesrv_addrs)
    addrs = split_addrs(connection.namesrv_addrs)
    for addr in addrs:
        if leads_to_machine_secrets(addr.rpartition(":")[0]):
            raise NameServerUnreachable(
                Text(
                    "%(name)s is link-local or a cloud's metadata address: no request is sent to it.",
                    name=addr,
                )
            )
    try:
        servers = ask_once(addrs, connection, lambda admin, _: admin.cluster_info(), PROBE_DEADLINE_MS)
    except InvalidClientConfig as error:
        raise ConnectionSettingInvalid(text_of(error), "") from error
    names: set[str] = set()
    masters: set[str] = set()
    findings: list[Finding] = []
    for addr, answer in servers.items():
        if isinstance(answer, Exception):
            findings.append(_finding(connection, addr, answer))
        elif not answer.broker_addr_table:
            why = Text(
                "%(addr)s answers as a name server, but no broker is registered with it. Check that "
                "namesrvAddr of the brokers names it.",
                addr=addr,
            )
            findings.append(Finding(addr, Fault.NO_BROKER, why))
        else:
            names |= set(answer.broker_addr_table)
            found = (broker.master_addr for broker in answer.broker_addr_table.values())
            masters |= {each for each in found if each is not None}
    brokers = ask_once(sorted(masters), connection, _round_reads, PROBE_DEADLINE_MS)
    return _Look(frozenset(names), findings, _of_brokers(connection, brokers))


async def _round_reads(admin: MQAdmin, addr: str) -> dict[str, Exception]:
    """Return the errors of what a round reads of a broker, by the name of its request."""
    answers = await asyncio.gather(*(_error_of(read(admin, addr)) for read in ROUND_READS.values()))
    return {name: error for name, error in zip(ROUND_READS, answers, strict=True) if error is not None}


async def _error_of(answer: Awaitable[object]) -> Exception | None:
    try:
        await answer
    except (MQClientError, MQBrokerError, RemotingError) as error:
        return error
    return None


def _of_brokers(
    connection: Connection, answers: Mapping[str, dict[str, Exception] | Exception]
) -> list[Finding]:
    """Return a finding for each request that a broker refuses, or one for the broker."""
    findings: list[Finding] = []
    for addr, answer in answers.items():
        errors = {"": answer} if isinstance(answer, Exception) else answer
        found = [_finding(connection, addr, error, name or "broker") for name, error in errors.items()]
        # A broker that cannot be reached, or keys that it does not have, are the same in every request.
        findings += found if all(each.fault == Fault.RIGHT_MISSING for each in found) else found[:1]
    return findings


def _finding(connection: Connection, addr: str, error: Exception, request: str = "") -> Finding:
    limit_s = PROBE_DEADLINE_MS // 1000
    uses_tls = connection.tls is not None
    return finding_of(addr, error, uses_tls=uses_tls, limit_s=limit_s, request=request)
