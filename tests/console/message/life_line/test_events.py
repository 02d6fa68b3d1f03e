"""The life of a message, judged from traces, retries, dead letters and offsets on a real brokerd."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.http import urlencode

from console.access.name_scope import EVERYTHING, NameScope
from console.brokers.mqadmin import close_admins
from console.cluster.models import Cluster
from console.deadletter.models import LedgerState, ReplayLedger
from console.lag.models import ClientRow
from console.message import services
from console.message.life_line.axis import axis_of
from console.message.life_line.events import GroupLife, LifeLine, Mark, State, life_line
from console.message.life_line.trace import read_trace
from console.message.search.lanes import Hit
from console.operation import services as operation_services
from consumers import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageRecord,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
)
from tests.console.deadletter import letters
from tests.console.operation.live_cluster import LiveCluster
from tests.support import sample_rows
from tests.support.broker_process import BrokerProcess
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

KEY = "0A0407151F9063947C6B6E2F24B70911"
NOW_MS = 2_000_000_000_000


@pytest.fixture
def stored(live: LiveCluster) -> Hit:
    return stored_message(live)


def stored_message(live: LiveCluster) -> Hit:
    """The message in question: third of its queue, tag paid."""
    live.create_topic("orders", queues=1)
    live.send("orders", 0, [b"a", b"b"])
    live.send("orders", 0, [b"c"], TAGS="paid", UNIQ_KEY=KEY)
    found = services.record_at("test", "orders", live.broker_name, 0, 2)
    assert found is not None and found.record.message_id == KEY
    return found


def reads(hit: Hit, group: str, committed: int | None, topic: str = "orders", **fields: object) -> None:
    sample_rows.queue_row(
        group,
        0,
        cluster="test",
        topic=topic,
        broker_name=hit.broker_name,
        committed_offset=committed,
        **fields,
    )


def copy(live: LiveCluster, topic: str, messages: int = 1) -> None:
    live.create_topic(topic, queues=1)
    live.send(topic, 0, [b"c"] * messages, UNIQ_KEY=KEY, ORIGIN_MESSAGE_ID="x")
    sample_rows.topic_row(topic, cluster="test", kind="RETRY", messages=messages)


def life_of(hit: Hit, scope: NameScope = EVERYTHING) -> LifeLine:
    return life_line(Cluster.objects.get(name="test"), hit, scope, now_ms=NOW_MS)


def states(life: LifeLine) -> dict[str, State]:
    return {each.group: each.state for each in life.groups}


def one(life: LifeLine, group: str) -> GroupLife:
    return next(each for each in life.groups if each.group == group)


def test_it_judges_by_offsets_and_subscriptions(stored: Hit) -> None:
    for group, committed in (
        ("done", 3),
        ("behind", 0),
        ("next", 2),
        ("fresh", None),
        ("picky", 9),
        ("cast", 5),
    ):
        reads(stored, group, committed)
    sample_rows.group_row("cast", cluster="test", model="BROADCASTING")
    sample_rows.group_row("behind", cluster="test", clients=0)
    for group, expression in (("picky", "new || old"), ("done", "paid || new")):
        ClientRow.objects.create(
            cluster="test",
            group=group,
            client_id="c",
            subscription={"orders": {"expression": expression, "type": "TAG"}},
        )
    life = life_of(stored)
    assert states(life) == {
        "behind": State.NOT_YET,
        "cast": State.UNKNOWN,
        "done": State.CONSUMED,
        "fresh": State.UNKNOWN,
        "next": State.NOT_YET,
        "picky": State.FILTERED,
    }
    assert (
        one(life, "behind").reason == "2 messages of this queue are ahead of it"
        and one(life, "behind").is_offline
    )
    assert one(life, "next").reason == "it is next"
    assert one(life, "picky").reason == "subscribes to tags “new || old”; this one has “paid”"
    assert "never committed" in one(life, "fresh").reason
    assert dict(life.counts) == {State.CONSUMED: 1, State.NOT_YET: 2, State.FILTERED: 1, State.UNKNOWN: 2}


def test_it_finds_retries_dead_letters_and_replays(stored: Hit, live: LiveCluster) -> None:
    for group in ("retrier", "recovered", "buried", "replayed"):
        reads(stored, group, 3)
    copy(live, "%RETRY%retrier")
    reads(stored, "retrier", 0, "%RETRY%retrier")
    copy(live, "%RETRY%recovered", messages=2)
    reads(stored, "recovered", 2, "%RETRY%recovered")
    copy(live, "%DLQ%buried")
    copy(live, "%DLQ%replayed")
    alice = User.objects.create_user("boss", is_superuser=True)
    plan = operation_services.create_plan("message_send", "test", "orders", {"body": "x"}, alice)
    ReplayLedger.objects.create(
        plan=plan,
        cluster="test",
        group="replayed",
        topic="%DLQ%replayed",
        broker_name=stored.broker_name,
        queue_id=0,
        queue_offset=0,
        message_id=KEY,
        state=LedgerState.SENT,
        replay_key="k",
        target_topic="%RETRY%replayed",
        updated_at_ms=NOW_MS - 5,
    )
    life = life_of(stored)
    assert states(life) == {
        "buried": State.DEAD,
        "recovered": State.CONSUMED,
        "replayed": State.REPLAYED,
        "retrier": State.RETRYING,
    }
    assert [mark.kind for mark in one(life, "replayed").marks] == ["dead", "replay"]
    assert one(life, "recovered").reason == "after 2 retries"
    assert [step.plan_id for step in life.steps if step.plan_id] == [plan.id]
    assert life.problems == []


def test_a_message_for_a_time_has_its_wait_in_the_story(live: LiveCluster) -> None:
    live.create_topic("later", queues=1)
    times = {"TIMER_DELAY_SEC": "60", "TIMER_OUT_MS": "1999", "TIMER_ENQUEUE_MS": "1000"}
    live.send("later", 0, [b"x"], UNIQ_KEY=KEY, **times)
    hit = services.record_at("test", "later", live.broker_name, 0, 0)
    assert hit is not None
    life = life_of(hit)
    assert [(step.at_ms, step.words) for step in life.steps] == [
        (1000, "waits for its time"),
        (hit.record.store_timestamp_ms, "stored in later"),
    ]


def test_a_dead_letter_has_the_story_of_its_message(live: LiveCluster) -> None:
    """From either end: the message as it was sent, its tries counted once, its dead letter."""
    letters.group_with_topics(live)
    letters.die(live, 1)
    sample_rows.topic_row(letters.DLQ, cluster="test", kind="DLQ", messages=1)
    original, letter = (
        services.record_at("test", topic, live.broker_name, 0, 0) for topic in (letters.TOPIC, letters.DLQ)
    )
    assert original is not None and letter is not None
    reads(original, letters.GROUP, 1)
    life = life_of(original)
    assert states(life) == {letters.GROUP: State.DEAD}
    assert one(life, letters.GROUP).reason == "1 try failed, then a dead letter"
    assert [(step.group, step.words) for step in life.steps] == [
        ("", "stored in orders"),
        ("billing", "dead letter"),
    ]
    same = life_of(letter)
    assert (same.groups, same.steps, same.stored_ms) == (life.groups, life.steps, life.stored_ms)
    assert (life.copied_for, same.copied_for) == ("", "billing")
    # The visitor may see the group and not the topic: the first message stays hidden.
    narrow = life_of(letter, NameScope(("billing",)))
    assert (narrow.first, states(narrow)) == (None, {letters.GROUP: State.DEAD})
    assert [step.words for step in narrow.steps] == ["dead letter"]


@pytest.fixture(scope="module")
def tracing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("tracing") / "store", traceTopicEnable="true").start()
    yield broker
    close_admins()
    broker.stop()


@pytest.fixture
def tracing(tracing_broker: BrokerProcess, db: None) -> LiveCluster:
    return LiveCluster(tracing_broker).register()


def test_it_reads_traces(tracing: LiveCluster) -> None:
    live = tracing
    stored = stored_message(live)
    reads(stored, "traced", 0)
    sample_rows.topic_row("RMQ_SYS_TRACE_TOPIC", cluster="test", kind="SYSTEM", messages=2)
    at = stored.record.store_timestamp_ms
    pub = ["Pub", at, "r", "makers", "orders", KEY, "paid", "", "10.0.0.2:10911", 1, 7, 0, "0A", "true"]
    before = ["SubBefore", at + 40, "r", "traced", "q1", KEY, "0", ""]
    after = ["SubAfter", "q1", KEY, "12", "true", "", "0", at + 52, "traced"]
    for records in ([pub], [before, after]):
        body = "\x02".join("\x01".join(map(str, record)) for record in records) + "\x02"
        live.send("RMQ_SYS_TRACE_TOPIC", 0, [body.encode()], KEYS=KEY)
    life = life_of(stored)
    assert states(life) == {"traced": State.CONSUMED}
    assert one(life, "traced").reason.startswith("in 12 ms on 127.0.0.1, 0 tries before")
    assert [(mark.at_ms, mark.kind) for mark in one(life, "traced").marks] == [(at + 52, "ok")]
    assert [mark.text for mark in life.sent] == ["from 127.0.0.1 in 7 ms"]


async def send_and_consume(namesrv: str) -> None:
    """Send a message and consume it with our clients, as their traces should show it."""
    is_consumed = asyncio.Event()

    async def consume(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        is_consumed.set()
        return ConsumeStatus.CONSUME_SUCCESS

    first = PushConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, enable_msg_trace=True)
    async with Producer("makers", namesrv, ProducerConfig(enable_msg_trace=True)) as producer:
        await producer.send(Message("own", b"1", {"KEYS": "A-1"}))
    async with PushConsumer("billing", namesrv, consume, {"own": "*"}, config=first):
        await asyncio.wait_for(is_consumed.wait(), 30)


def test_it_reads_the_traces_of_our_clients(tracing: LiveCluster) -> None:
    tracing.create_topic("own", queues=1)
    asyncio.run(send_and_consume(tracing.broker.namesrv))
    hit = services.record_at("test", "own", tracing.broker_name, 0, 0)
    assert hit is not None
    reads(hit, "billing", 0, topic="own")
    sample_rows.topic_row("RMQ_SYS_TRACE_TOPIC", cluster="test", kind="SYSTEM", messages=2)
    life = life_of(hit)
    # The last round has an offset before the message: that it is consumed is in the trace only.
    assert states(life) == {"billing": State.CONSUMED}
    assert re.fullmatch(r"in \d+ ms on 127\.0\.0\.1, 0 tries before.*", one(life, "billing").reason)
    (mark,) = one(life, "billing").marks
    assert mark.kind == "ok" and mark.at_ms >= hit.record.store_timestamp_ms
    (sent,) = life.sent
    assert re.fullmatch(r"from 127\.0\.0\.1 in \d+ ms", str(sent.text))
    assert abs(sent.at_ms - hit.record.born_timestamp_ms) < 60_000


@pytest.mark.parametrize(
    "text", ["", "Pub", "Pub\x01x", "SubAfter\x01a", "\x02\x02", "SubBefore\x01\x01\x01\x01\x01" + KEY]
)
def test_a_damaged_trace_is_passed_over(text: str) -> None:
    found = read_trace([(text, "c")], KEY)
    assert found.sent == [] and found.consumed == []


def test_it_names_only_what_the_visitor_may_view(stored: Hit, live: LiveCluster) -> None:
    for group in ("orders-a", "secret"):
        reads(stored, group, 3)
    assert list(states(life_of(stored, NameScope(("orders*",))))) == ["orders-a"]
    sample_rows.topic_row("orders", cluster="test")
    sample_rows.topic_row("secret-topic", cluster="test")

    browser: Client = signed_in("some", verbs=("VIEW",), names="orders*")
    place = f"{stored.broker_name}:0:2"
    page = browser.get(f"/c/test/messages/x?{urlencode({'topic': 'orders', 'at': place})}").content.decode()
    assert "orders-a" in page and "secret" not in page
    browser_list = browser.get("/c/test/messages").content.decode()
    assert "orders" in browser_list and "secret" not in browser_list
    live.create_topic("secret-topic", queues=1)
    live.send("secret-topic", 0, [b"x"])
    hidden = services.record_at("test", "secret-topic", live.broker_name, 0, 0)
    assert hidden is not None
    answer = browser.get(f"/c/test/messages/{hidden.record.offset_message_id}")
    assert answer.status_code == 404, "an id alone does not tell that a topic one may not see has it"


def test_everything_lies_on_one_axis(stored: Hit) -> None:
    life = LifeLine(1_000, 1_000, 1_000 + 3_600_000, [], 0, [], [], [], [])
    axis = axis_of(life)
    assert [words for _, words in axis.ticks] == ["100 ms", "1 s", "10 s", "1 m", "10 m"]
    places = [float(x.rstrip("%")) for x, _ in axis.ticks]
    assert places == sorted(places) and axis.start == "2.00%" and axis.now == "95.00%"
    assert [words for _, words in axis_of(life, even=True).ticks] == ["10 m", "20 m", "30 m", "40 m", "50 m"]
    assert axis_of(LifeLine(5, 5, 5, [], 0, [], [], [], [])).ticks == []


def test_labels_do_not_overlap_and_the_end_of_the_story_keeps_its_own() -> None:
    marks = (
        Mark(9_000, "failed", "retry 1 stored"),
        Mark(9_900, "failed", "retry 2 stored"),
        Mark(9_950, "dead", "dead letter"),
    )
    lane = GroupLife("g", State.DEAD, "", marks)
    (placed,) = axis_of(LifeLine(0, 0, 10_000, [lane], 0, [], [], [], []), even=True).lanes
    assert [(mark.label, mark.anchor) for mark in placed.marks] == [
        ("", "start"),
        ("", "start"),
        ("dead letter", "end"),
    ]
    assert placed.onward == "gone" and placed.line_to == placed.marks[-1].x
