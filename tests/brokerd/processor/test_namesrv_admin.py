"""The name server's administration over a socket."""

from __future__ import annotations

from pathlib import Path

from brokerd.__main__ import name_server_settings
from brokerd.config import read_properties
from brokerd.name_server import NameServerController
from brokerd.remoting.body.route import QueueData, TopicRouteData
from brokerd.remoting.body.topic import TopicList
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import RawClient, running

LISTS = (
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
)


async def register(client: RawClient, topic: str, flag: int, broker: str = "broker-a") -> None:
    queues = QueueData(broker, 1, 2, 6, flag)
    body = TopicRouteData(queue_datas=[queues]).to_body()
    assert (await client.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, body)).code == 0


async def test_it_lists_topics_by_the_marks_of_units(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        for flag, topic in enumerate(("Plain", "Unit", "Sub", "UnitSub")):
            await register(namesrv, topic, flag)
        lists = [TopicList.from_body((await namesrv.ask(code)).body).topic_list for code in LISTS]
        assert lists == [["Unit", "UnitSub"], ["Sub", "UnitSub"], ["Sub"]]
        route = TopicRouteData.from_body(
            (await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Unit"})).body
        )
        assert route.queue_datas == [QueueData("broker-a", 1, 2, 6, 1)]


async def test_it_registers_no_topic_of_a_broker_it_does_not_know(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        await register(namesrv, "Elsewhere", 1, "broker-z")
        assert (await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Elsewhere"})).code == 17


async def settings(client: RawClient) -> dict[str, str]:
    return read_properties((await client.ask(RequestCode.GET_NAMESRV_CONFIG)).body.decode())


async def test_it_shows_settings_under_javas_names(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        shown = await settings(await broker.namesrv_client())
        assert (shown["listenPort"], shown["bindAddress"], shown["enableTopicList"]) == (
            "0",
            "127.0.0.1",
            "true",
        )
        assert shown["kvConfigPath"] == str(tmp_path / "config" / "kvConfig.json")
        assert "namesrvListenPort" not in shown


async def test_it_changes_settings_at_once_and_for_the_next_start(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        change = b"enableTopicList=false\norderMessageEnable=true\n"
        assert (await namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=change)).code == 0
        assert (await settings(namesrv))["orderMessageEnable"] == "true"
        for code in (*LISTS, RequestCode.GET_TOPICS_BY_CLUSTER):
            answer = await namesrv.ask(code, {"cluster": "DefaultCluster"})
            assert (answer.code, answer.remark) == (1, "disable: enableTopicList is false")
    saved = read_properties((tmp_path / "config" / "broker.properties").read_text())
    assert saved == {"enableTopicList": "false", "orderMessageEnable": "true"}


async def test_it_refuses_settings_by_name_and_changes_none(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        for body, says in (
            (b"enableTopicList=false\nlistenPort=1\n", "listenPort: cannot be changed while the broker runs"),
            (
                b"enableTopicList=false\nclusterTest=true\n",
                "clusterTest: no setting that a name server (318) changes",
            ),
            (
                b"enableTopicList=false\norderMessageEnable=maybe\n",
                "orderMessageEnable=maybe: takes true or false",
            ),
            (b"\xff", "settings are not UTF-8"),
        ):
            answer = await namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
            assert (answer.code, says in (answer.remark or "")) == (29, True), answer.remark
        assert (await settings(namesrv))["enableTopicList"] == "true"
    assert not (tmp_path / "config" / "broker.properties").exists()


async def test_it_keeps_changes_of_a_process_of_its_own(tmp_path: Path) -> None:
    given = ["listenPort=0", "bindAddress=127.0.0.1", f"kvConfigPath={tmp_path / 'kvConfig.json'}"]
    for change, code in ((b"orderMessageEnable=true\n", 0), (b"kvConfigPath=/x\n", 29)):
        server = name_server_settings(None, given, {})[1]()
        assert isinstance(server, NameServerController)
        await server.start()
        client = await RawClient.connect(server.ready.removeprefix("namesrv="))
        assert (await client.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=change)).code == code
        assert (await settings(client))["orderMessageEnable"] == "true"
        await client.close()
        await server.stop()
    assert (tmp_path / "namesrv.properties").read_text() == "orderMessageEnable=true\n"
