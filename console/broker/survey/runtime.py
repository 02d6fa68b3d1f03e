"""A broker's runtime table (28) explained: grouped, named, with units, and honest where a release tells nothing.

`figures` turns the texts of one broker into groups of `RuntimeFigure`; what is not in the table below is listed as it
came. Words are ours, meanings those of `StoreStatsService`, `DefaultMessageStore` and `AdminBrokerProcessor`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence

from console.broker.survey.disk import UNITS
from console.text.figures import count, duration, latency, percent, rate, size

Table = Mapping[str, str]
NEVER = 2**31 - 1  # what brokers say for "no limit" and "there is none"
SYSTEM_BUSY_MS = 200  # waitTimeMillsInSendQueue's default
CACHE_BUSY_MS = 1_000  # osPageCacheBusyTimeOutMills' default
_BUCKET = re.compile(r"\[([^\]]+)\]:(\d+)")
_SIZE = re.compile(r"([\d.]+)\s*(B|KiB|MiB|GiB|TiB|PiB)")


@dataclasses.dataclass(frozen=True, slots=True)
class RuntimeFigure:
    """`text` is empty when the figure is unknown; `says` then tells why. `tone`: "" | warn | bad."""

    key: str
    label: str
    text: str
    says: str
    tone: str = ""
    raw: str = ""

    @property
    def is_known(self) -> bool:
        return bool(self.text)


@dataclasses.dataclass(frozen=True, slots=True)
class RuntimeGroup:
    name: str
    question: str
    figures: Sequence[RuntimeFigure]


# ---- values ----


def number(text: str | None) -> float | None:
    """The first number of "12.0 11.5 11.0 " (10 s, 60 s, 600 s); null for none."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def size_bytes(text: str | None) -> int | None:
    """`977 B`, `1.5 KiB` or a bare number of bytes."""
    found = _SIZE.search(text or "")
    if found:
        return round(float(found[1]) * UNITS[found[2]])
    value = number(text)
    return None if value is None else round(value)


def put_distribution(table: Table) -> list[tuple[str, int]]:
    """How many puts took how long in the last minute: [("<=0ms", 23), ("0~10ms", 11), …]."""
    return [(span, int(puts)) for span, puts in _BUCKET.findall(table.get("putMessageDistributeTime", ""))]


def put_p99_ms(table: Table) -> tuple[float | None, str]:
    """How long the slowest 1 % of puts took, and why it is unknown when it is null.

    Brokers tell it of the last whole minute: one whose first minute with messages is not over yet, and one without
    traffic in the last one, have nothing to tell.
    """
    value = number(table.get("putLatency99"))
    if value is None:
        return None, "this release does not tell it"
    if any(puts for _, puts in put_distribution(table)):
        return value, ""
    if (number(table.get("putTps")) or 0) > 0 and value == 0:
        return None, "its first minute with messages is not over yet"
    return None, "no message was written in the last minute"


def loop_delay_s(table: Table) -> tuple[float | None, float | None]:
    """(p99, longest) wait for the event loop in the last minute, in seconds; None where a broker has no such figure."""
    p99_ms, max_ms = number(table.get("loopDelay99")), number(table.get("loopDelayMax"))
    return None if p99_ms is None else p99_ms / 1000, None if max_ms is None else max_ms / 1000


def page_cache_state(table: Table, busy_from_ms: int = CACHE_BUSY_MS) -> tuple[str, str]:
    """(word, tone) of the page cache by the longest wait for the commit log now; "" when unknown."""
    held_ms = number(table.get("pageCacheLockTimeMills"))
    if held_ms is None or held_ms >= NEVER:
        return "", ""
    if held_ms >= busy_from_ms:
        return f"busy, {latency(held_ms)}", "bad"
    return ("keeps up", "") if held_ms < busy_from_ms / 4 else (f"slow, {latency(held_ms)}", "warn")


# ---- the table: (key, other spellings) → label, form, what it says ----

Form = Callable[[str], str]
Judge = Callable[[Table], tuple[str, str]]  # → words, tone


def _as(render: Callable[[float], str], unit: str = "") -> Form:
    def form(text: str) -> str:
        value = number(text)
        return "" if value is None else render(value) + unit

    return form


def _size_form(text: str) -> str:
    value = size_bytes(text)
    return "" if value is None else size(value)


def _text(text: str) -> str:
    return text.strip()


def _moment(text: str) -> str:
    value = number(text)
    if value is None or value <= 0:
        return "none"
    return f"{dt.datetime.fromtimestamp(value / 1000, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def _limited(text: str) -> str:
    value = number(text)
    return "" if value is None else ("no limit" if value >= NEVER else count(value))


_rate, _count, _ms = _as(rate, " /s"), _as(count), _as(latency)
_ratio = _as(percent)


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    label: str
    form: Form
    says: str = ""
    judge: Judge | None = None
    also: tuple[str, ...] = ()
    release: str = ""  # the first that tells it, "" for all


def _three(table: Table, key: str) -> str:
    values = [rate(float(one)) for one in table.get(key, "").split()[:3] if number(one) is not None]
    spans = ("10 s", "1 m", "10 m")
    words = ", ".join(f"{value} over {span}" for value, span in zip(values, spans, strict=False))
    return words or "the broker is too young to say"


def _rates(key: str, words: str) -> Judge:
    return lambda table: (f"{words}: {_three(table, key)}", "")


def _puts(table: Table) -> tuple[str, str]:
    value, reason = put_p99_ms(table)
    if value is None:
        return reason, ""
    total = sum(puts for _, puts in put_distribution(table))
    slow = sum(puts for span, puts in put_distribution(table) if span not in ("<=0ms", "0~10ms"))
    tone = "bad" if value >= SYSTEM_BUSY_MS else "warn" if value >= 50 else ""
    return f"{count(slow)} of {count(total)} in the last minute took over 10 ms", tone


def _distribution(table: Table) -> tuple[str, str]:
    return ", ".join(f"{span} {count(puts)}" for span, puts in put_distribution(table) if puts), ""


def _cache(table: Table) -> tuple[str, str]:
    word, tone = page_cache_state(table)
    if number(table.get("sendThreadPoolQueueCapacity")) == 0:  # brokerd: one thread, and nothing is refused
        return f"{word or 'unknown'}; one turn of its only thread, in the last 10 s", tone
    return f"{word or 'unknown'}; from {latency(CACHE_BUSY_MS)} on sends are refused (SYSTEM_BUSY)", tone


def _behind(key: str, words: str, warn_from: float) -> Judge:
    def judge(table: Table) -> tuple[str, str]:
        value = size_bytes(table.get(key))
        return words, "warn" if value is not None and value >= warn_from else ""

    return judge


def _waiting(pool: str, words: str) -> Judge:
    def judge(table: Table) -> tuple[str, str]:
        head_ms = number(table.get(f"{pool}ThreadPoolQueueHeadWaitTimeMills")) or 0
        room = number(table.get(f"{pool}ThreadPoolQueueCapacity")) or 0
        limit = f", room for {count(room)}" if room else ""
        tone = "bad" if head_ms >= SYSTEM_BUSY_MS else "warn" if head_ms >= SYSTEM_BUSY_MS / 2 else ""
        return f"{words}; the first has waited {latency(head_ms)}{limit}", tone

    return judge


def _loop(key: str, warn_from_ms: int, bad_from_ms: int) -> Judge:
    def judge(table: Table) -> tuple[str, str]:
        value = number(table.get(key)) or 0
        tone = "bad" if value >= bad_from_ms else "warn" if value >= warn_from_ms else ""
        return "for the event loop, in the last minute", tone

    return judge


def _today(kind: str) -> Judge:
    def judge(table: Table) -> tuple[str, str]:
        now, morning = (number(table.get(f"{kind}{one}")) for one in ("TodayNow", "TodayMorning"))
        yesterday = number(table.get(f"{kind}YesterdayMorning"))
        if now is None or morning is None or yesterday is None:
            return "since the broker began to count", ""
        return (
            f"since it began to count; {count(now - morning)} today, {count(morning - yesterday)} yesterday",
            "",
        )

    return judge


_GROUPS: Sequence[tuple[str, str, Sequence[_Entry]]] = (
    (
        "Writing",
        "is it taking messages, and how fast?",
        (
            _Entry("putTps", "Messages in", _rate, judge=_rates("putTps", "mean")),
            _Entry("putLatency99", "Storing, slowest 1 %", _ms, judge=_puts),
            _Entry("putLatency999", "Storing, slowest 0.1 %", _ms, "of the same minute"),
            _Entry(
                "putMessageEntireTimeMax",
                "Slowest since the start",
                _ms,
                "one message, from arrival to stored",
            ),
            _Entry(
                "putMessageDistributeTime",
                "How long puts took",
                lambda text: "last minute" if text else "",
                judge=_distribution,
            ),
            _Entry("putMessageFailedTimes", "Failed writes", _count, "since the start"),
            _Entry("putMessageAverageSize", "Size of a message", _size_form, "mean since the start"),
            _Entry("pageCacheLockTimeMills", "Longest hold of the log", _ms, judge=_cache),
            _Entry(
                "sendThreadPoolQueueSize", "Waiting to be stored", _count, judge=_waiting("send", "sends")
            ),
            _Entry(
                "remainTransientStoreBufferNumbs",
                "Free write buffers",
                _limited,
                "of the transient store pool; no limit without one",
            ),
        ),
    ),
    (
        "Event loop",
        "does its one thread keep up?",
        (
            _Entry("loopDelay99", "Requests wait, slowest 1 %", _ms, judge=_loop("loopDelay99", 20, 100)),
            _Entry("loopDelayMax", "Longest wait", _ms, judge=_loop("loopDelayMax", 100, 1_000)),
        ),
    ),
    (
        "Reading",
        "do consumers get them?",
        (
            _Entry(
                "getTransferredTps",
                "Messages out",
                _rate,
                judge=_rates("getTransferredTps", "mean"),
                also=("getTransferedTps",),
            ),
            _Entry("getFoundTps", "Pulls with messages", _rate, judge=_rates("getFoundTps", "mean")),
            _Entry(
                "getMissTps",
                "Empty pulls",
                _rate,
                judge=_rates("getMissTps", "long polls that ended empty, no harm"),
            ),
            _Entry(
                "getMessageEntireTimeMax", "Slowest read since the start", _ms, "one pull, without its wait"
            ),
            _Entry("pullThreadPoolQueueSize", "Waiting to be read", _count, judge=_waiting("pull", "pulls")),
            _Entry(
                "litePullThreadPoolQueueSize",
                "Waiting lite pulls",
                _count,
                judge=_waiting("litePull", "lite pulls"),
                release="5.0",
            ),
            _Entry(
                "queryThreadPoolQueueSize",
                "Waiting queries",
                _count,
                judge=_waiting("query", "queries by key"),
            ),
            _Entry(
                "ackThreadPoolQueueSize",
                "Waiting acknowledgements",
                _count,
                judge=_waiting("ack", "of POP consumers"),
                release="5.0",
            ),
            _Entry("EndTransactionQueueSize", "Waiting commits", _count, "ends of transactions"),
        ),
    ),
    (
        "Keeping",
        "does it reach the disk and the index, and for how long?",
        (
            _Entry(
                "commitLogDiskRatio",
                "Disk of the commit log",
                _ratio,
                "used, by everything on it; in whole percents",
            ),
            _Entry("consumeQueueDiskRatio", "Disk of the queues", _ratio, "used, by everything on it"),
            _Entry("commitLogDirCapacity", "Size of that disk", _text, "as the broker writes it"),
            _Entry(
                "remainHowManyDataToFlush",
                "Not yet on disk",
                _size_form,
                judge=_behind(
                    "remainHowManyDataToFlush", "what a power cut would take, without a slave", 256e6
                ),
            ),
            _Entry(
                "remainHowManyDataToCommit",
                "Not yet in the page cache",
                _size_form,
                "only with the transient store pool",
            ),
            _Entry(
                "dispatchBehindBytes",
                "Index behind the log",
                _size_form,
                judge=_behind("dispatchBehindBytes", "stored, and not yet readable by consumers", 16e6),
            ),
            _Entry(
                "earliestMessageTimeStamp",
                "Oldest message",
                _moment,
                "when it was stored, by the broker's clock",
            ),
            _Entry("commitLogMinOffset", "Oldest byte kept", _count, "offset in the commit log"),
            _Entry("commitLogMaxOffset", "Bytes ever written", _count, "offset in the commit log"),
        ),
    ),
    (
        "Delayed",
        "what is to come later?",
        (
            _Entry(
                "timerReadBehind",
                "Timer behind",
                _as(lambda value: duration(value * 1000)),
                "how late the timer reads its wheel",
                release="5.0",
            ),
            _Entry("timerOffsetBehind", "Timer messages not yet sorted in", _count, "", release="5.0"),
            _Entry(
                "timerCongestNum",
                "Timer messages waiting",
                _count,
                "with a delivery time of their own",
                release="5.0",
            ),
            _Entry("timerEnqueueTps", "Timer in", _rate, "sorted into the wheel", release="5.0"),
            _Entry("timerDequeueTps", "Timer out", _rate, "delivered", release="5.0"),
        ),
    ),
    (
        "Since it began",
        "how much went through it?",
        (
            _Entry("msgPutTotalTodayNow", "Messages taken", _count, judge=_today("msgPutTotal")),
            _Entry("msgGetTotalTodayNow", "Messages given", _count, judge=_today("msgGetTotal")),
            _Entry("putMessageSizeTotal", "Bytes taken", _size_form, "since the start"),
            _Entry("bootTimestamp", "Started", _moment, "by the broker's clock"),
        ),
    ),
)
OURS = frozenset({"Event loop"})  # groups that only brokerd has
HIDDEN = frozenset({"loopDelay50", "brokerVersion", "dispatchMaxBuffer", "brokerActive", "getTransferedTps"})


def figures(table: Table) -> list[RuntimeGroup]:
    """The known figures in groups, what is missing named as unknown, and the rest under "Other"."""
    groups = [
        RuntimeGroup(name, question, [_figure(entry, table) for entry in entries])
        for name, question, entries in _GROUPS
        if name not in OURS or any(entry.key in table for entry in entries)
    ]
    shown = {key for _, _, entries in _GROUPS for entry in entries for key in (entry.key, *entry.also)}
    explained = re.compile(r".*ThreadPoolQueue(Capacity|HeadWaitTimeMills)|msg(Put|Get)Total.*")
    rest = [
        RuntimeFigure(key, key, value.strip() or "–", _rest_says(key), raw=value)
        for key, value in sorted(table.items())
        if key not in shown | HIDDEN and not explained.fullmatch(key)
    ]
    return [*groups, RuntimeGroup("Other", "as the broker tells it", rest)] if rest else groups


def _figure(entry: _Entry, table: Table) -> RuntimeFigure:
    key = next((one for one in (entry.key, *entry.also) if one in table), entry.key)
    raw = table.get(key)
    if raw is None:
        why = f"told from RocketMQ {entry.release} on" if entry.release else "not told by this broker"
        return RuntimeFigure(entry.key, entry.label, "", why)
    text = entry.form(raw)
    words, tone = entry.judge({**table, entry.key: raw}) if entry.judge else (entry.says, "")
    why = _why_unmeasured(entry.key, table)
    if why:
        return RuntimeFigure(key, entry.label, "", why, raw=raw)
    return RuntimeFigure(
        key, entry.label, text, words if text else "the broker is too young to say", tone, raw
    )


def _why_unmeasured(key: str, table: Table) -> str:
    """Why the zero of a figure is none: nobody measured; "" for a figure that counts."""
    if key.startswith("putLatency") or key == "putMessageDistributeTime":
        return put_p99_ms(table)[1]
    pool = key.removesuffix("ThreadPoolQueueSize")
    if pool != key or key == "EndTransactionQueueSize":
        room = f"{pool}ThreadPoolQueueCapacity" if pool != key else "EndTransactionThreadPoolQueueCapacity"
        return "this broker has no such queue" if number(table.get(room)) == 0 else ""
    return ""


def _rest_says(key: str) -> str:
    if key.startswith("scheduleMessageOffset_"):
        return f"delay level {key.rpartition('_')[2]}: delivered up to, of"
    return {
        "runtime": "how long it has run",
        "startAcceptSendRequestTimeStamp": "sends are refused until then, epoch ms; 0: never",
        "putMessageTimesTotal": "writes since the start",
        "storeRefusal": "why it takes no messages",
        "getTotalTps": "pulls per second over 10 s, 1 m, 10 m",
    }.get(key, "")
