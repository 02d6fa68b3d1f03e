"""Explain a broker's runtime table (28): grouped, named, with units, and marked where a release lacks it.

`figures` turns the texts of one broker into groups of `RuntimeFigure`; what the broker does not have is a group of its
own, and what is not in the table below is listed as received. Meanings are those of `StoreStatsService`,
`DefaultMessageStore` and `AdminBrokerProcessor`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence

from console.broker.survey.course import Course
from console.broker.survey.disk import UNITS, capacity_words
from console.text import Duration, Latency, Text
from console.text.figures import count, duration, latency, percent, rate, size

Table = Mapping[str, str]
NEVER = 2**31 - 1  # RocketMQ's value for "no limit" and "none"
SYSTEM_BUSY_MS = 200  # waitTimeMillsInSendQueue's default
CACHE_BUSY_MS = 1_000  # osPageCacheBusyTimeOutMills' default
_BUCKET = re.compile(r"\[([^\]]+)\]:(\d+)")
_SIZE = re.compile(r"([\d.]+)\s*(B|KiB|MiB|GiB|TiB|PiB)")


@dataclasses.dataclass(frozen=True, slots=True)
class RuntimeFigure:
    """One figure; `text` is empty when it is unknown, `says` is then the reason. `tone`: "" | warn | bad.

    `trend` is null and `usual` empty where no samples are kept; `at_ms`: of a figure that is a time.
    """

    key: str
    label: Text
    text: str
    says: Text
    tone: str = ""
    raw: str = ""
    trend: Sequence[float | None] | None = None
    usual: str = ""
    at_ms: int | None = None

    @property
    def is_known(self) -> bool:
        return bool(self.text)


@dataclasses.dataclass(frozen=True, slots=True)
class RuntimeGroup:
    name: Text
    question: Text
    figures: Sequence[RuntimeFigure]
    # Without a meaning of ours: closed on pages.
    is_raw: bool = False
    # What this broker does not have: closed on pages.
    is_absent: bool = False


# ---- values ----


def number(text: str | None) -> float | None:
    """Parse the first number of "12.0 11.5 11.0 " (10 s, 60 s, 600 s); None without one."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def size_bytes(text: str | None) -> int | None:
    """Parse `977 B`, `1.5 KiB` or a bare number of bytes."""
    found = _SIZE.search(text or "")
    if found:
        return round(float(found[1]) * UNITS[found[2]])
    value = number(text)
    return None if value is None else round(value)


def put_distribution(table: Table) -> list[tuple[str, int]]:
    """Return how many puts took how long in the last minute: [("<=0ms", 23), ("0~10ms", 11), …]."""
    return [(span, int(puts)) for span, puts in _BUCKET.findall(table.get("putMessageDistributeTime", ""))]


def put_p99_ms(table: Table) -> tuple[float | None, Text]:
    """Return how long the slowest 1 % of puts took, and the reason when that is None.

    Brokers report the last whole minute: not before their first minute with messages is over, and not without traffic
    in the last one.
    """
    value = number(table.get("putLatency99"))
    if value is None:
        return None, Text("this release does not report it")
    if any(puts for _, puts in put_distribution(table)):
        return value, Text()
    if (number(table.get("putTps")) or 0) > 0 and value == 0:
        return None, Text("known after a minute")
    return None, Text("no message was written in the last minute")


def loop_delay_s(table: Table) -> tuple[float | None, float | None]:
    """Return (p99, longest) wait for the event loop in the last minute, in seconds; None where unreported."""
    p99_ms, max_ms = number(table.get("loopDelay99")), number(table.get("loopDelayMax"))
    return None if p99_ms is None else p99_ms / 1000, None if max_ms is None else max_ms / 1000


def log_lock_ms(table: Table) -> float | None:
    """Return the longest current wait for the commit log, or None where it is unreported."""
    held_ms = number(table.get("pageCacheLockTimeMills"))
    return None if held_ms is None or held_ms >= NEVER else held_ms


def page_cache_state(table: Table, busy_from_ms: int = CACHE_BUSY_MS) -> tuple[Text, str]:
    """Return (word, tone) of the page cache by the longest current wait for the log; "" when unknown."""
    held_ms = log_lock_ms(table)
    if held_ms is None:
        return Text(), ""
    time = Latency(round(held_ms))
    if held_ms >= busy_from_ms:
        return Text("busy, %(time)s", time=time), "bad"
    if held_ms >= busy_from_ms / 4:
        return Text("slow, %(time)s", time=time), "warn"
    return Text("keeps up"), ""


# ---- the table: (key, other spellings) → label, form, meaning ----

Form = Callable[[str], str]
Judge = Callable[[Table], tuple[Text, str]]  # → words, tone


def _as(render: Callable[[float], str]) -> Form:
    def form(text: str) -> str:
        value = number(text)
        return "" if value is None else render(value)

    return form


def _rate(text: str) -> str:
    value = number(text)
    return "" if value is None else Text("%(rate)s /s", rate=rate(value))


def _size_form(text: str) -> str:
    value = size_bytes(text)
    return "" if value is None else size(value)


def _disk_size(text: str) -> str:
    found = capacity_words(text)
    return Text("%(total)s, %(free)s free", total=found[0], free=found[1]) if found else text.strip()


def _time_ms(text: str) -> int | None:
    value = number(text)
    return None if value is None or value <= 0 else round(value)


def _moment(text: str) -> str:
    value = _time_ms(text)
    if value is None:
        return Text("none")
    return f"{dt.datetime.fromtimestamp(value / 1000, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def _limited(text: str) -> str:
    value = number(text)
    return "" if value is None else (Text("no limit") if value >= NEVER else count(value))


_count, _ms = _as(count), _as(latency)
_ratio = _as(percent)


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    label: Text
    form: Form
    says: Text = Text()
    judge: Judge | None = None
    also: tuple[str, ...] = ()
    release: str = ""  # the first release that reports it, "" for all
    is_optional: bool = False  # a broker may be without it; `says` is when it has it


def _three(table: Table, key: str) -> Text:
    values = [rate(float(one)) for one in table.get(key, "").split()[:3] if number(one) is not None]
    spans = (Duration(10_000), Duration(60_000), Duration(600_000))
    parts = [
        Text("%(value)s over %(span)s", value=value, span=span)
        for value, span in zip(values, spans, strict=False)
    ]
    return Text.of_list(parts) or Text("the broker started too recently to report it")


def _means(key: str) -> Judge:
    return lambda table: (Text("mean: %(figures)s", figures=_three(table, key)), "")


def _misses(table: Table) -> tuple[Text, str]:
    figures = _three(table, "getMissTps")
    return Text("long polls that ended empty, which is normal: %(figures)s", figures=figures), ""


def _puts(table: Table) -> tuple[Text, str]:
    value, reason = put_p99_ms(table)
    if value is None:
        return reason, ""
    total = sum(puts for _, puts in put_distribution(table))
    slow = sum(puts for span, puts in put_distribution(table) if span not in ("<=0ms", "0~10ms"))
    tone = "bad" if value >= SYSTEM_BUSY_MS else "warn" if value >= 50 else ""
    return Text("%(slow)s of %(total)s in the last minute took over 10 ms", slow=slow, total=total), tone


def _distribution(table: Table) -> tuple[Text, str]:
    parts = [
        Text("%(span)s: %(number)s", span=_span_words(span), number=puts)
        for span, puts in put_distribution(table)
        if puts
    ]
    return Text.of_list(parts), ""


def _span_words(span: str) -> Text:
    """Read a bucket of the distribution: `<=0ms`, `0~10ms` (without those of 0 ms), `3~4s`, `10s~`."""
    found = re.fullmatch(r"(<=)?(\d+)?~?(\d+)?(ms|s)(~)?", span)
    if found is None:
        return Text.foreign(span)
    low, high = (
        int(one) * (1 if found[4] == "ms" else 1_000) if one else None for one in (found[2], found[3])
    )
    if found[1] is not None:
        return Text("under 1 ms")
    if found[5] is not None:
        return Text("from %(low)s on", low=Latency(low or 0))
    return Text("%(low)s to %(high)s", low=Latency(low or 1), high=Latency(high or 0))


def _cache(table: Table) -> tuple[Text, str]:
    word, tone = page_cache_state(table)
    state = word or Text("unknown")
    if number(table.get("sendThreadPoolQueueCapacity")) == 0:  # brokerd: one thread, and nothing is refused
        return Text("%(state)s; longest turn of its single thread in the last 10 s", state=state), tone
    limit = Latency(CACHE_BUSY_MS)
    return Text(
        "%(state)s; from %(limit)s on sends are refused (SYSTEM_BUSY)", state=state, limit=limit
    ), tone


def _behind(key: str, words: Text, warn_from: float) -> Judge:
    def judge(table: Table) -> tuple[Text, str]:
        value = size_bytes(table.get(key))
        return words, "warn" if value is not None and value >= warn_from else ""

    return judge


def _waiting(pool: str, what: Text) -> Judge:
    def judge(table: Table) -> tuple[Text, str]:
        head_ms = number(table.get(f"{pool}ThreadPoolQueueHeadWaitTimeMills")) or 0
        room = number(table.get(f"{pool}ThreadPoolQueueCapacity")) or 0
        time = Latency(round(head_ms))
        tone = "bad" if head_ms >= SYSTEM_BUSY_MS else "warn" if head_ms >= SYSTEM_BUSY_MS / 2 else ""
        if not room:
            return Text("%(what)s; the first has waited %(time)s", what=what, time=time), tone
        text = Text(
            "%(what)s; the first has waited %(time)s, room for %(room)s",
            what=what,
            time=time,
            room=round(room),
        )
        return text, tone

    return judge


def _loop(key: str, warn_from_ms: int, bad_from_ms: int) -> Judge:
    def judge(table: Table) -> tuple[Text, str]:
        value = number(table.get(key)) or 0
        tone = "bad" if value >= bad_from_ms else "warn" if value >= warn_from_ms else ""
        return Text("wait for the event loop in the last minute"), tone

    return judge


def _today(kind: str) -> Judge:
    def judge(table: Table) -> tuple[Text, str]:
        now, morning = (number(table.get(f"{kind}{one}")) for one in ("TodayNow", "TodayMorning"))
        yesterday = number(table.get(f"{kind}YesterdayMorning"))
        if now is None or morning is None or yesterday is None:
            return Text("since the counter started"), ""
        text = Text(
            "since the counter started; %(today)s today, %(yesterday)s yesterday",
            today=round(now - morning),
            yesterday=round(morning - yesterday),
        )
        return text, ""

    return judge


_GROUPS: Sequence[tuple[Text, Text, Sequence[_Entry]]] = (
    (
        Text("Writing"),
        Text("messages accepted, and how fast"),
        (
            _Entry("putTps", Text("Messages in"), _rate, judge=_means("putTps")),
            _Entry("putLatency99", Text("Put, slowest 1 %%"), _ms, judge=_puts),
            _Entry("putLatency999", Text("Put, slowest 0.1 %%"), _ms, Text("of the same minute")),
            _Entry(
                "putMessageEntireTimeMax",
                Text("Slowest since the start"),
                _ms,
                Text("one message, from arrival to stored"),
            ),
            _Entry(
                "putMessageDistributeTime",
                Text("Distribution of put times"),
                lambda text: Text("last minute") if text else Text(),
                judge=_distribution,
            ),
            _Entry("putMessageFailedTimes", Text("Failed writes"), _count, Text("since the start")),
            _Entry(
                "putMessageAverageSize", Text("Size of a message"), _size_form, Text("mean since the start")
            ),
            _Entry("pageCacheLockTimeMills", Text("Longest lock of the log"), _ms, judge=_cache),
            _Entry(
                "sendThreadPoolQueueSize",
                Text("Waiting to be stored"),
                _count,
                judge=_waiting("send", Text("sends")),
            ),
            _Entry(
                "remainTransientStoreBufferNumbs",
                Text("Free write buffers"),
                _limited,
                Text("of the transient store pool; without a pool there is no limit"),
            ),
        ),
    ),
    (
        Text("Event loop"),
        Text("whether its single thread keeps up"),
        (
            _Entry(
                "loopDelay99", Text("Requests wait, slowest 1 %%"), _ms, judge=_loop("loopDelay99", 20, 100)
            ),
            _Entry("loopDelayMax", Text("Longest wait"), _ms, judge=_loop("loopDelayMax", 100, 1_000)),
        ),
    ),
    (
        Text("Reading"),
        Text("messages delivered to consumers"),
        (
            _Entry(
                "getTransferredTps",
                Text("Messages out"),
                _rate,
                judge=_means("getTransferredTps"),
                also=("getTransferedTps",),
            ),
            _Entry("getFoundTps", Text("Pulls with messages"), _rate, judge=_means("getFoundTps")),
            _Entry(
                "getMissTps",
                Text("Empty pulls"),
                _rate,
                judge=_misses,
            ),
            _Entry(
                "getMessageEntireTimeMax",
                Text("Slowest read since the start"),
                _ms,
                Text("one pull, without its wait"),
            ),
            _Entry(
                "pullThreadPoolQueueSize",
                Text("Waiting to be read"),
                _count,
                judge=_waiting("pull", Text("pulls")),
            ),
            _Entry(
                "litePullThreadPoolQueueSize",
                Text("Waiting lite pulls"),
                _count,
                judge=_waiting("litePull", Text("lite pulls")),
                release="5.0",
            ),
            _Entry(
                "queryThreadPoolQueueSize",
                Text("Waiting queries"),
                _count,
                judge=_waiting("query", Text("queries by key")),
            ),
            _Entry(
                "ackThreadPoolQueueSize",
                Text("Waiting acknowledgements"),
                _count,
                judge=_waiting("ack", Text("of POP consumers")),
                release="5.0",
            ),
            _Entry("EndTransactionQueueSize", Text("Waiting commits"), _count, Text("ends of transactions")),
        ),
    ),
    (
        Text("Storage"),
        Text("flushed to disk, indexed, and kept for how long"),
        (
            _Entry(
                "commitLogDiskRatio",
                Text("Disk of the commit log"),
                _ratio,
                Text("share used, without space that the file system reserves; whole percents"),
            ),
            _Entry(
                "consumeQueueDiskRatio", Text("Disk of the queues"), _ratio, Text("used by everything on it")
            ),
            _Entry("commitLogDirCapacity", Text("Size of this disk"), _disk_size, Text("total and free")),
            _Entry(
                "remainHowManyDataToFlush",
                Text("Not yet on disk"),
                _size_form,
                judge=_behind(
                    "remainHowManyDataToFlush", Text("lost in a power failure, unless a slave has it"), 256e6
                ),
            ),
            _Entry(
                "remainHowManyDataToCommit",
                Text("Not yet in the page cache"),
                _size_form,
                Text("only with the transient store pool"),
                is_optional=True,
            ),
            _Entry(
                "dispatchBehindBytes",
                Text("Index behind the log"),
                _size_form,
                judge=_behind("dispatchBehindBytes", Text("stored, and not yet readable by consumers"), 16e6),
            ),
            _Entry(
                "earliestMessageTimeStamp",
                Text("Oldest message"),
                _moment,
                Text("when it was stored, by the broker's clock"),
            ),
            _Entry(
                "commitLogMinOffset", Text("Oldest byte stored"), _count, Text("offset in the commit log")
            ),
            _Entry(
                "commitLogMaxOffset", Text("Bytes written in total"), _count, Text("offset in the commit log")
            ),
        ),
    ),
    (
        Text("Delayed"),
        Text("messages to be delivered later"),
        (
            _Entry(
                "timerReadBehind",
                Text("Timer behind"),
                _as(lambda value: duration(value * 1000)),
                Text("how late the timer reads its wheel"),
                release="5.0",
            ),
            _Entry(
                "timerOffsetBehind",
                Text("Timer messages not in the wheel yet"),
                _count,
                Text(),
                release="5.0",
            ),
            _Entry(
                "timerCongestNum",
                Text("Timer messages waiting"),
                _count,
                Text("with an exact delivery time"),
                release="5.0",
            ),
            _Entry("timerEnqueueTps", Text("Timer in"), _rate, Text("sorted into the wheel"), release="5.0"),
            _Entry("timerDequeueTps", Text("Timer out"), _rate, Text("delivered"), release="5.0"),
        ),
    ),
    (
        Text("Totals"),
        Text("messages and bytes handled so far"),
        (
            _Entry("msgPutTotalTodayNow", Text("Messages stored"), _count, judge=_today("msgPutTotal")),
            _Entry("msgGetTotalTodayNow", Text("Messages delivered"), _count, judge=_today("msgGetTotal")),
            _Entry("putMessageSizeTotal", Text("Bytes stored"), _size_form, Text("since the start")),
            _Entry("bootTimestamp", Text("Started"), _moment, Text("by the broker's clock")),
        ),
    ),
)
OURS = frozenset({Text("Event loop")})  # groups that only brokerd has
# Measured in the last minute only: without writes in it their zero is not a time.
PUT_TIMES = frozenset({"putLatency99", "putLatency999", "putMessageDistributeTime"})
HIDDEN = frozenset({"loopDelay50", "brokerVersion", "dispatchMaxBuffer", "brokerActive", "getTransferedTps"})


def figures(table: Table, courses: Mapping[str, Course] | None = None) -> list[RuntimeGroup]:
    """Return the known figures in groups, missing ones marked unknown, then what the broker lacks and "Other"."""
    courses = courses or {}
    groups, absent = [], []
    for name, question, entries in _GROUPS:
        if name in OURS and not any(entry.key in table for entry in entries):
            continue
        shown = []
        for entry in entries:
            why = _absence(entry, table)
            if why:
                absent.append(RuntimeFigure(entry.key, entry.label, "", why, raw=table.get(entry.key, "")))
            else:
                shown.append(_with_course(_figure(entry, table), entry, courses))
        if shown:
            groups.append(RuntimeGroup(name, question, shown))
    if absent:
        groups.append(RuntimeGroup(Text("Not applicable to this broker"), Text(), absent, is_absent=True))
    rest = _rest(table)
    if rest:
        groups.append(RuntimeGroup(Text("Other"), Text("as the broker reports it"), rest, is_raw=True))
    return groups


def _rest(table: Table) -> list[RuntimeFigure]:
    """Return what no entry explains, as received."""
    shown = {key for _, _, entries in _GROUPS for entry in entries for key in (entry.key, *entry.also)}
    explained = re.compile(r".*ThreadPoolQueue(Capacity|HeadWaitTimeMills)|msg(Put|Get)Total.*")
    return [
        RuntimeFigure(key, Text.foreign(key), value.strip() or "–", _rest_words(key), raw=value)
        for key, value in sorted(table.items())
        if key not in shown | HIDDEN and not explained.fullmatch(key)
    ]


def _with_course(figure: RuntimeFigure, entry: _Entry, courses: Mapping[str, Course]) -> RuntimeFigure:
    found = courses.get(entry.key)
    if found is None:
        return figure
    usual = ""
    if found.usual is not None:
        low, high = (entry.form(str(value)) for value in found.usual)
        usual = low if low == high else f"{low} – {high}"
    return dataclasses.replace(figure, trend=found.trend, usual=usual)


def _figure(entry: _Entry, table: Table) -> RuntimeFigure:
    key = next((one for one in (entry.key, *entry.also) if one in table), entry.key)
    raw = table.get(key)
    if raw is None:
        return RuntimeFigure(entry.key, entry.label, "", Text("not reported by this broker"))
    text = entry.form(raw)
    words, tone = entry.judge({**table, entry.key: raw}) if entry.judge else (entry.says, "")
    why = put_p99_ms(table)[1] if entry.key in PUT_TIMES else Text()
    if why:
        return RuntimeFigure(key, entry.label, "", why, raw=raw)
    return RuntimeFigure(
        key,
        entry.label,
        text,
        words if text else Text("the broker started too recently to report it"),
        tone,
        raw,
        at_ms=_time_ms(raw) if entry.form is _moment else None,
    )


def _absence(entry: _Entry, table: Table) -> Text:
    """Return why a broker does not have a figure; "" where it should have it."""
    if not any(key in table for key in (entry.key, *entry.also)):
        if entry.release:
            return Text("reported from RocketMQ %(release)s on", release=entry.release)
        return entry.says if entry.is_optional else Text()
    pool = entry.key.removesuffix("ThreadPoolQueueSize")
    if pool != entry.key or entry.key == "EndTransactionQueueSize":
        pool = pool.removesuffix("QueueSize")
        if number(table.get(f"{pool}ThreadPoolQueueCapacity")) == 0:
            return Text("this broker has no such queue")
    return Text()


REST_WORDS = {
    "runtime": Text("uptime"),
    "startAcceptSendRequestTimeStamp": Text("sends are refused until this time (epoch ms); 0: not refused"),
    "putMessageTimesTotal": Text("writes since the start"),
    "storeRefusal": Text("why it accepts no messages"),
    "getTotalTps": Text("pulls per second over 10 s, 1 m, 10 m"),
}


def _rest_words(key: str) -> Text:
    if key.startswith("scheduleMessageOffset_"):
        return Text("delay level %(level)s: delivered offset, end offset", level=key.rpartition("_")[2])
    return REST_WORDS.get(key, Text())
