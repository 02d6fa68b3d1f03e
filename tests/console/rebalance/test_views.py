"""The Rebalance pages: the list, the matrix in its views, findings, what if."""

from __future__ import annotations

import time

import pytest
from django.http import QueryDict
from django.test import Client

from console.lag.models import BrokerRow, ClientRow, GroupMembers, GroupRow, LagEvent, QueueOwner
from console.lag.rows.queue_row import TopicQueueRow
from console.rebalance.models import ServerSideGroup
from console.rebalance.placement.form import Wanted
from console.text import Text
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
GROUP = "/c/local/rebalance/billing"


def place(queue_id: int) -> dict[str, object]:
    return {"topic": "orders", "broker_name": "broker-a", "queue_id": queue_id}


def member(client_id: str, *queue_ids: int, is_silent: bool = False, **fields: object) -> None:
    sample_rows.client_row(
        "billing",
        client_id,
        **{
            "queues": None if is_silent else [place(one) for one in queue_ids],
            "subscription": {"orders": {"expression": "*", "type": "TAG"}},
            **fields,
        },
    )
    # one sweep: of reports at different times the newer one counts
    ClientRow.objects.update(read_at_ms=int(time.time() * 1000) - 3_000)


@pytest.fixture
def admin() -> Client:
    """A group of four queues: 0 has one owner, 1 two, 2 none; 3 falls to an idle client."""
    sample_rows.cluster()
    sample_rows.group_row("billing")
    for queue_id in range(4):
        sample_rows.queue_row("billing", queue_id, lag=10 * queue_id, out_rate=1.0)
        sample_queues.save(
            "local",
            TopicQueueRow(topic="orders", broker_name="broker-a", queue_id=queue_id, in_rate=3.0),
        )
    GroupMembers.objects.create(
        cluster="local", group="billing", clients=3, model="CLUSTERING", read_at_ms=int(time.time() * 1000)
    )
    member("10.0.0.1@1", 0, 1, strategy="AVG")
    member("10.0.0.2@1", 1, strategy="AVG")
    member("10.0.0.3@1", strategy="AVG")
    return signed_in()


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_the_list_counts_owners(admin: Client) -> None:
    text = shown(admin, "/c/local/rebalance")
    row = text[text.index(">billing</a>") : text.index("</tr>", text.index(">billing</a>"))]
    assert "Queues without owner" in row
    cells = [part.split("</td>")[0] for part in row.split("<td")[1:]]
    assert [
        cell.rpartition(">")[2] or cell.rpartition("</span>")[0].rpartition(">")[2] for cell in cells[1:5]
    ] == [
        "4",
        "1",
        "2",
        "1",
    ]


@pytest.mark.parametrize(
    ("query", "is_listed"), [("state=NO_OWNER", True), ("state=OK", False), ("q=no-such", False)]
)
def test_the_list_filters_by_state(admin: Client, query: str, is_listed: bool) -> None:
    assert (">billing</a>" in shown(admin, f"/c/local/rebalance?{query}")) is is_listed


def test_the_list_is_a_file(admin: Client) -> None:
    lines = b"".join(admin.get("/c/local/rebalance?format=csv").streaming_content).decode().splitlines()
    assert lines[1].startswith("billing,NO_OWNER,4,1,2,1,0,3,1,0,")


def cells(text: str, client_id: str) -> str:
    """The marks of a row of the matrix, a letter each; a dot is an empty cell."""
    start = text.index(f">{client_id}</a>", text.index('class="own"'))
    row = text[start : text.index("</tr>", start)]
    letters = {"own": "O", "two": "2", "due": "d", "asof": "k", "takes": "+", "loses": "-"}
    return "".join(
        next((letter for name, letter in letters.items() if f"cell--{name}" in cell), ".")
        for cell in row.split("<td")[1:5]
    )


def test_the_matrix_shows_owners_and_what_falls_to_whom(admin: Client) -> None:
    text = shown(admin, GROUP)
    # AVG: two queues to the first, one to each of the others
    assert [cells(text, f"10.0.0.{number}@1") for number in (1, 2, 3)] == ["O2..", ".2d.", "...d"]
    assert "2 queues without owner" in text
    assert text.count('class="cell--none"') == 2
    assert ">+2<" in text and ">+8<" in text


@pytest.mark.parametrize(
    ("view", "expected"),
    [("strategy", ["OO..", "..O.", "...O"]), ("difference", ["O2..", ".-+.", "...+"])],
)
def test_the_other_views_are_the_strategy_and_the_difference(
    admin: Client, view: str, expected: list[str]
) -> None:
    text = shown(admin, f"{GROUP}?view={view}&part=now")
    assert [cells(text, f"10.0.0.{number}@1") for number in (1, 2, 3)] == expected


def test_findings_name_the_clients(admin: Client) -> None:
    text = shown(admin, GROUP)
    assert "2 queues of orders without owner: broker-a · 2 and broker-a · 3" in text
    assert "1 queue has several owners: broker-a · 1" in text
    assert "1 client holds no queue: 10.0.0.3@1" in text


def test_a_silent_client_keeps_its_last_known_queues(admin: Client) -> None:
    member("10.0.0.4@1", is_silent=True, reason=Text("no answer"))
    QueueOwner.objects.create(
        cluster="local", group="billing", **place(2), client_id="10.0.0.4@1", from_ms=1, to_ms=2
    )
    text = shown(admin, GROUP)
    assert cells(text, "10.0.0.4@1") == "..k."
    assert "10.0.0.4@1 does not report its queues" in text
    assert "without owner" not in text and "Owner unknown" in text
    # what is unknown is not "no client" in what if either
    assert "<del>no client</del>" not in text and "The owner of 1 queue is unknown" in text


def test_members_behind_a_silent_broker_leave_nothing_certain(admin: Client) -> None:
    GroupMembers.objects.update(clients=None)
    text = shown(admin, GROUP)
    assert "without owner" not in text and "a broker that may list clients does not answer" in text


def test_unknown_owners_behind_a_silent_broker_are_no_all_clear(admin: Client) -> None:
    GroupMembers.objects.update(clients=None)
    ClientRow.objects.all().delete()
    BrokerRow.objects.create(
        cluster="local",
        broker_name="broker-a",
        answered=False,
        since_ms=int(time.time() * 1000),
        reason=Text("connection refused"),
    )
    text = shown(admin, GROUP)
    assert "broker-a has not answered since" in text
    assert "The owners of 4 queues are unknown. Nothing else is wrong." in text
    assert "Nothing is wrong." not in text


def test_a_flapping_client_is_named(admin: Client) -> None:
    now_ms = int(time.time() * 1000)
    for minutes in (1, 5, 9):
        LagEvent.objects.create(
            cluster="local",
            group="billing",
            kind=LagEvent.Kind.MEMBERS,
            at_ms=now_ms - minutes * 60_000,
            members={"joined": {"count": 1, "names": ["10.0.0.2@1"]}},
        )
    text = shown(admin, GROUP)
    assert "10.0.0.2@1 keeps reconnecting: 3 times" in text
    assert text.count("1 client joined (10.0.0.2@1)") == 3


def test_movement_is_drawn_of_the_time_that_is_chosen(admin: Client) -> None:
    now_ms = int(time.time() * 1000)

    def owned(queue_id: int, client_id: str, from_min: int, to_min: int | None) -> None:
        QueueOwner.objects.create(
            cluster="local",
            group="billing",
            client_id=client_id,
            host="10.0.0.1",
            from_ms=now_ms - from_min * 60_000,
            to_ms=None if to_min is None else now_ms - to_min * 60_000,
            **place(queue_id),
        )

    assert "No owner of these queues was recorded in this time" in shown(admin, GROUP)
    owned(0, "10.0.0.1@1", 600, None)
    owned(1, "10.0.0.9@1", 600, 120)
    owned(1, "10.0.0.2@1", 120, None)
    hour, day = shown(admin, GROUP), shown(admin, f"{GROUP}?span=24h&part=now")
    assert "0 queue moves on orders" in hour and "2 clients without a change" in hour
    assert "1 queue move on orders" in day and "1 client without a change" in day
    assert ": releases broker-a · 1</title>" in day and ": takes broker-a · 1</title>" in day
    assert "Queues without a known owner" in day
    assert shown(admin, f"{GROUP}?span=9y").count('aria-current="true">1 h<') == 1


def test_a_queue_that_two_clients_reported_is_named_with_its_time(admin: Client) -> None:
    now_ms = int(time.time() * 1000)
    for client_id in ("10.0.0.1@1", "10.0.0.2@1"):
        QueueOwner.objects.create(
            cluster="local",
            group="billing",
            client_id=client_id,
            from_ms=now_ms - 20 * 60_000,
            to_ms=now_ms - 10 * 60_000,
            is_claim=True,
            **place(0),
        )
    text = shown(admin, GROUP)
    assert "1 queue may have been handled twice: broker-a · 0" in text
    assert text.count("reported by 10.0.0.1@1 and 10.0.0.2@1 at once from") == 2, "finding and movement"
    assert text.count('class="here here--twice"') == 2
    QueueOwner.objects.update(from_ms=now_ms - 7_300_000, to_ms=now_ms - 7_200_000)
    assert "handled twice" not in shown(admin, GROUP)
    assert "handled twice" in shown(admin, f"{GROUP}?span=24h")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "BROADCASTING"}, "The group broadcasts"),
        ({"consume_mode": "POP"}, "The group consumes by POP"),
    ],
)
def test_shared_queues_have_no_owner_and_lack_none(admin: Client, fields: dict[str, str], words: str) -> None:
    GroupRow.objects.update(**fields)
    text = shown(admin, GROUP)
    assert words in text and "without owner" not in text and 'class="own"' not in text
    assert "Queues are shared" in shown(admin, "/c/local/rebalance")


def test_zeros_of_the_list_are_grey(admin: Client) -> None:
    row = shown(admin, "/c/local/rebalance").split("billing</a>", 1)[1].split("</tr>", 1)[0]
    assert row.count('<span class="zero">0</span>') >= 2


def test_an_offline_group_is_no_trouble(admin: Client) -> None:
    ClientRow.objects.all().delete()
    GroupMembers.objects.update(clients=0)
    text = shown(admin, GROUP)
    assert "No client online" in text and "Nothing is wrong." in text


def test_it_computes_what_if(admin: Client) -> None:
    text = shown(admin, GROUP)
    # 1 is owned twice, 2 and 3 by no client
    assert "AVG with these clients (3): 3 queues change owners; fewest possible: 3." in text
    query = "without=10.0.0.2@1&without=10.0.0.3@1&new=1&strategy=AVG_BY_CIRCLE"
    text = shown(admin, f"{GROUP}?{query}")
    assert "AVG_BY_CIRCLE with these clients (2): " in text
    assert "<ins>new-1</ins>" in text
    weighted = shown(admin, f"{GROUP}?strategy=FEWEST_MOVES&weight:10.0.0.1@1=0&weight:10.0.0.3@1=0")
    assert weighted.count("<ins>10.0.0.2@1</ins>") == 4


@pytest.mark.one_database("words of an address; the page is read by the tests beside it")
@pytest.mark.parametrize(
    "query", ["new=x", "new=-1", "strategy=NO_SUCH", "weight:10.0.0.1@1=x", "view=x&topic=x"]
)
def test_what_is_no_scenario_falls_back(admin: Client, query: str) -> None:
    assert "AVG with these clients (3)" in shown(admin, f"{GROUP}?{query}")


def test_no_client_left_gives_the_reason(admin: Client) -> None:
    query = "&".join(f"without=10.0.0.{number}@1" for number in (1, 2, 3))
    assert "no client is chosen" in shown(admin, f"{GROUP}?{query}")


def test_a_group_that_is_not_there_is_not_found(admin: Client) -> None:
    assert admin.get("/c/local/rebalance/no-such").status_code == 404


@pytest.fixture
def placeable(admin: Client) -> Client:
    """Broker-a stores assignments; the placement in force drains one client."""
    BrokerRow.objects.create(cluster="local", broker_name="broker-a", addr="h:1", capabilities=["assignment"])
    ServerSideGroup.objects.create(
        cluster="local",
        group="billing",
        topic="orders",
        strategy="AVG",
        created_at_ms=1,
        placement={"drained": ["10.0.0.3@1"], "pins": {"broker-a/2": "10.0.0.9@1"}},
        placed_at_ms=1_700_000_000_000,
    )
    return admin


def test_the_placement_in_force_is_shown_and_fills_the_form(placeable: Client) -> None:
    for address in (GROUP, f"{GROUP}?part=now"):
        text = shown(placeable, address)
        assert "Being stored" in text
        in_force = text[text.index('id="in-force"') :]
        assert "10.0.0.3@1 is drained" in in_force and "broker-a/2 is pinned to 10.0.0.9@1" in in_force
    form = shown(placeable, GROUP).partition('id="placement"')[2].partition("</form>")[0]
    fields = " ".join(form.split())
    assert 'name="drain" value="10.0.0.3@1" checked' in fields
    assert 'name="pin:broker-a/2" list="placed-clients" value="10.0.0.9@1"' in fields
    assert 'name="weight:10.0.0.9@1"' in fields and ">away<" in fields


def test_only_who_may_configure_has_the_form(placeable: Client) -> None:
    reader = signed_in("reader", verbs=("VIEW",))
    text = shown(reader, GROUP)
    assert 'id="placement"' not in text and "10.0.0.3@1 is drained" in text
    answer = reader.post(GROUP, {"topic": "orders", "drain": "10.0.0.1@1"})
    assert answer.status_code == 403


def test_brokers_without_assignment_take_no_placement(admin: Client) -> None:
    BrokerRow.objects.create(cluster="local", broker_name="broker-a", addr="h:1", capabilities=[])
    text = shown(admin, GROUP)
    assert "broker-a cannot store assignments" in text and 'name="drain"' not in text


def test_a_form_becomes_the_parameters_of_a_plan() -> None:
    sent = QueryDict(
        "drain=b&weight:a=3&weight:b=1&weight:c=0&weight:d=x&pin:broker-a/0=a&pin:broker-a/1="
        "&canary_version=5.3.3&canary_share=20"
    )
    assert Wanted.sent(sent).params("orders") == {
        "topic": "orders",
        "pins": {"broker-a/0": "a"},
        "drained": ("b", "c"),
        "weights": {"a": "3", "d": "x"},
        "canary_version": "5.3.3",
        "canary_share": 20,
    }


def test_what_if_becomes_a_plan_where_a_placement_gives_it(placeable: Client) -> None:
    text = shown(placeable, f"{GROUP}?strategy=FEWEST_MOVES&without=10.0.0.1@1&weight:10.0.0.2@1=3")
    form = text.partition('id="what-if"')[2].partition('method="post"')[2].partition("</form>")[0]
    fields = " ".join(form.split())
    assert 'name="drain" value="10.0.0.1@1"' in fields
    assert 'name="weight:10.0.0.2@1" value="3"' in fields
    for query in ("strategy=AVG", "strategy=FEWEST_MOVES&new=1"):
        text = shown(placeable, f"{GROUP}?{query}").partition('id="what-if"')[2]
        assert 'method="post"' not in text.partition("</section>")[0]


def test_of_very_many_clients_the_page_names_the_first_and_says_so(admin: Client) -> None:
    for at in range(150):
        sample_rows.client_row("billing", f"10.1.0.{at:03}@1", queues=None)
    text = shown(admin, f"{GROUP}?without=10.1.0.149@1")
    assert text.count('name="without"') == 50 and 'value="10.1.0.149@1"' in text
    assert "50 of 153 clients; REST leaves out any of them." in text
    assert "; REST returns all." in text[text.index('class="findings"') : text.index('id="matrix"')]
    assert text[text.index('class="findings"') : text.index('id="matrix"')].count("<li>") == 20
