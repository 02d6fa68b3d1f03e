"""Access control of a cluster for its page and REST: the same rights on several brokers together, differences apart."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

from console.broker.acl.facts import BrokerAcl, Generation, ask_acl
from console.broker.acl.rights import ACCOUNT, SECRET_KEYS, USER, WHITE, WHITE_KEY
from console.brokers.mqadmin import with_admin
from console.brokers.queues import PAGE_DEADLINE_MS, NameServersSilent, ask_each, page_masters
from console.cluster.diagnosis import Fault, finding_of
from console.cluster.models import Cluster
from console.lag import last_seen
from console.operation.config.row import Config
from console.operation.plan.coverage import UNLISTED
from console.text import Text, text_of

NEEDED: Mapping[str, Generation] = {ACCOUNT: Generation.ACCOUNTS, USER: Generation.USERS}


GENERATION_WORDS: Mapping[Generation, Text] = {
    Generation.ACCOUNTS: Text("accounts (4.x)"),
    Generation.USERS: Text("users and policies (5.x)"),
    Generation.NONE: Text("nothing: ACL is off"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Right:
    """A key of an account or user; ``differs``: between the brokers, or only some have it."""

    key: str
    value: str | bool
    differs: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """An account or user as some brokers have it; ``rights`` without its secret."""

    brokers: tuple[str, ...]
    rights: tuple[Right, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """An account or user over all brokers. ``missing``: brokers of its generation that do not have it."""

    what: str
    name: str
    variants: tuple[Variant, ...]
    missing: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Return whether the brokers differ about it."""
        return len(self.variants) > 1 or bool(self.missing)


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerLine:
    """One broker. ``acl`` None: unknown, because of ``reason``."""

    name: str
    acl: BrokerAcl | None
    reason: Text = Text()
    white_differs: bool = False

    @property
    def generation(self) -> Generation | None:
        """Return what the broker decides by; None is unknown."""
        return None if self.acl is None else self.acl.generation

    @property
    def generation_words(self) -> Text:
        """Return the same for people; empty: unknown."""
        return Text() if self.acl is None else GENERATION_WORDS[self.acl.generation]

    @property
    def is_checked(self) -> bool | None:
        """Return whether requests are checked; None is unknown."""
        return None if self.acl is None else self.acl.is_checked

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the broker's settings about access control."""
        return {} if self.acl is None else self.acl.settings

    @property
    def white_addresses(self) -> str | None:
        """Return the addresses that need no account; None: unknown, or a broker without them."""
        config = None if self.acl is None else self.acl.of(WHITE, WHITE_KEY)
        return None if config is None else str(config[WHITE_KEY])


@dataclasses.dataclass(frozen=True, slots=True)
class AclTable:
    """``problem``: why no broker could be read at all."""

    brokers: tuple[BrokerLine, ...]
    holders: tuple[Holder, ...]
    read_at_ms: int
    problem: Text = Text()

    @property
    def unknown(self) -> tuple[BrokerLine, ...]:
        """Return the brokers whose access control is unknown."""
        return tuple(line for line in self.brokers if line.acl is None)

    def names(self, generation: Generation) -> list[str]:
        """Return the brokers of a generation."""
        return [line.name for line in self.brokers if line.generation == generation]

    def of(self, what: str) -> tuple[Holder, ...]:
        """Return the accounts, or the users."""
        return tuple(holder for holder in self.holders if holder.what == what)

    @property
    def accounts(self) -> tuple[Holder, ...]:
        """Return the accounts of 4.x."""
        return self.of(ACCOUNT)

    @property
    def users(self) -> tuple[Holder, ...]:
        """Return the users of 5.x."""
        return self.of(USER)


def read_table(cluster: Cluster) -> AclTable:
    """Ask every broker at once. Raises nothing: the page shows what was read and why the rest is unknown."""
    admin, now_ms = with_admin(cluster.connection), time.time_ns() // 1_000_000
    try:
        addrs = page_masters(admin)
    except NameServersSilent as error:
        return AclTable((), (), now_ms, text_of(error))
    answers = ask_each(admin, addrs, ask_acl, PAGE_DEADLINE_MS)
    read = {name: answer for name, answer in answers.items() if isinstance(answer, BrokerAcl)}
    silent = {
        name: _reason(cluster, addrs[name], answer)
        for name, answer in answers.items()
        if isinstance(answer, Exception)
    }
    gone = [name for name in last_seen.brokers_seen(cluster.name) if name not in addrs]
    return table_of(read, silent | dict.fromkeys(gone, UNLISTED), now_ms)


def table_of(read: Mapping[str, BrokerAcl], silent: Mapping[str, Text], now_ms: int) -> AclTable:
    """Return the table of brokers that answered, and of those whose access control is unknown."""
    white = {name: found[WHITE_KEY] for name, acl in read.items() if (found := acl.of(WHITE, WHITE_KEY))}
    differ = len(set(white.values())) > 1
    lines = [BrokerLine(name, acl, white_differs=differ and name in white) for name, acl in read.items()]
    lines += [BrokerLine(name, None, why) for name, why in silent.items()]
    keys = sorted({key for acl in read.values() for key in acl.objects if key[0] in NEEDED})
    holders = tuple(_holder(what, name, read) for what, name in keys)
    return AclTable(tuple(sorted(lines, key=lambda line: line.name)), holders, now_ms)


def _reason(cluster: Cluster, addr: str, error: Exception) -> Text:
    """Return why a broker's access control is unknown; a missing right is named by the broker."""
    limit_s = PAGE_DEADLINE_MS // 1_000
    found = finding_of(addr, error, uses_tls=cluster.uses_tls, limit_s=limit_s, request="26, 54, 3005, 3010")
    if found.fault is not Fault.RIGHT_MISSING:
        return found.text
    return Text(
        "a permission is missing: the console signs as %(name)s, and the broker answers: %(answer)s. "
        "Reading accounts needs an administrator; reading users needs a super user, or Get and List on "
        "the cluster.",
        name=cluster.access_key,
        answer=text_of(error),
    )


def _holder(what: str, name: str, read: Mapping[str, BrokerAcl]) -> Holder:
    """Return an account or user with the brokers that have the same of it together, most of them first."""
    found: list[tuple[Config, list[str]]] = []
    missing = []
    for broker, acl in read.items():
        config = acl.of(what, name)
        if config is None:
            if acl.generation == NEEDED[what]:
                missing.append(broker)
            continue
        same = next((brokers for known, brokers in found if known == config), None)
        if same is None:
            found.append((config, [broker]))
        else:
            same.append(broker)
    found.sort(key=lambda each: -len(each[1]))
    configs = [config for config, _ in found]
    variants = tuple(Variant(tuple(brokers), _rights(config, configs)) for config, brokers in found)
    return Holder(what, name, variants, tuple(missing))


def _rights(config: Config, all_configs: Sequence[Config]) -> tuple[Right, ...]:
    return tuple(
        Right(key, value, any(other.get(key) != value for other in all_configs))
        for key, value in config.items()
        if key not in SECRET_KEYS.values()
    )
