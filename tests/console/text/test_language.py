"""Which language a request speaks, the switch, the words of the scripts; REST is English for everybody."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.forms import CharField
from django.test import Client
from django.utils import translation

from console.text.language import figure_words
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("words"),
]
CHINESE = {"HTTP_ACCEPT_LANGUAGE": "zh-CN,zh;q=0.9,en;q=0.8"}
# Page → words it must say, besides the navigation.
PAGES = {
    "/c/local/": ["总览", "最大消费延迟", "采集器"],
    "/c/local/topics": ["主题", "可读", "流入"],
    "/c/local/groups": ["消费组", "消费延迟", "堆积量"],
    "/c/local/groups/analytics": ["重置消费位点", "预计消化", "队列"],
    "/c/local/groups/analytics/offsets": ["回到该计划执行之前的位点", "生成计划"],
    "/c/local/topics/orders": ["队列", "生产者"],
    "/c/local/dead-letters": ["死信", "最常见原因"],
    "/c/local/brokers": ["写入 p99", "页缓存"],
    "/c/local/operations": ["操作", "所有类型"],
    "/c/local/messages": ["选择主题", "实时跟踪"],
    "/c/local/reports": ["报表", "小时堆积"],
    "/clusters": ["添加集群", "NameServer 地址"],
    "/tokens": ["API 令牌", "新建令牌", "重投死信"],
    "/activity": ["审计", "所有操作"],
    "/password": ["设置密码", "新密码", "再次输入新密码"],
}
# Fixed English that is said alike in Chinese, names in the sample, and what stands in code.
ALIKE = re.compile(
    r"Tidemark|RocketMQ|Apache|NameServer|Broker|Ctrl K|Esc|Enter|Redis|manage\.py\S*|brokerd|SQL92|CSV|NDJSON|"
    r"Parquet|HTML|JSON|UTC\S*|RPC|API|DLQ|SLO|POP|p\d\d|VIEW|SEND|RESET|REPLAY|REPORT|CONFIGURE|ADMIN|English|"
    r"Protobuf|schema|MessagePack|CommitLog|Spark|UUID|ID|connection refused|WEBHOOK\w+|"
    r"host:port|%\w+%\S*|\S*[/_.:@=-]\S*|[A-Z_]{3,}"
)


@pytest.fixture(autouse=True)
def english_afterwards() -> Iterator[None]:
    """A request leaves its language in its thread, and other tests have the same."""
    yield
    translation.activate("en")


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


def seen(text: str) -> str:
    """What a person reads of a page: no scripts, code, names of the sample, or values of inputs."""
    text = re.sub(r"<(script|style|code|pre|svg|datalist)\b.*?</\1>", " ", text, flags=re.S)
    told = " ".join(re.findall(r'(?:placeholder|aria-label|data-tip|data-why)="([^"]*)"', text))
    return html.unescape(re.sub(r"<[^>]*>", " ", text) + " " + told)


@pytest.mark.parametrize("address", PAGES)
def test_pages_speak_chinese(admin: Client, address: str) -> None:
    answer = admin.get(address, **CHINESE)
    text = answer.content.decode()
    assert answer.status_code == 200
    assert '<html lang="zh-hans"' in text
    words = seen(text)
    for wanted in [*PAGES[address], "消费组", "退出登录"]:
        assert wanted in words
    left = re.findall(r"[A-Za-z]+ [a-z]+ [a-z]+[a-z ]*", ALIKE.sub("", words))
    assert not left, "fixed English is left on the page"


def test_a_stranger_reads_the_sign_in_page_in_the_browsers_language(client: Client) -> None:
    text = client.get("/sign-in", **CHINESE).content.decode()
    assert "登录" in text
    assert 'lang="en">English</button>' in text
    assert "Sign in" in client.get("/sign-in").content.decode()


def test_a_choice_is_kept_and_leads_back(admin: Client) -> None:
    answer = admin.post("/language", {"language": "zh-hans", "next": "/tokens"})
    assert (answer.status_code, answer["Location"]) == (302, "/tokens")
    assert answer.cookies["tidemark_language"].value == "zh-hans"
    assert "新建令牌" in admin.get("/tokens").content.decode()
    admin.post("/language", {"language": "en", "next": "/tokens"})
    assert "New token" in admin.get("/tokens", **CHINESE).content.decode()


def test_a_choice_leads_nowhere_else_and_needs_a_form(admin: Client) -> None:
    elsewhere = admin.post("/language", {"language": "zh-hans", "next": "https://evil.example/"})
    assert elsewhere["Location"] == "/"
    assert admin.get("/language").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/language", {"language": "zh-hans", "next": "/"}).status_code == 403
    assert "tidemark_language" not in admin.post("/language", {"language": "xx", "next": "/"}).cookies


def test_rest_is_english_whatever_the_browser_speaks(admin: Client) -> None:
    for address in ("/api/v1/clusters/none", "/api/v1/clusters/local/groups?sort=nonsense"):
        plain, chinese = admin.get(address), admin.get(address, **CHINESE)
        assert plain.content.decode().replace("\n", "") == chinese.content.decode().replace("\n", "")
    refused = admin.post("/api/v1/tokens", {}, content_type="application/json", **CHINESE)
    assert refused.content.isascii()


def test_scripts_get_their_words_once_and_keep_them(admin: Client) -> None:
    page = admin.get("/c/local/groups", **CHINESE).content.decode()
    found = re.search(r'src="(/language/zh-hans\.js\?v=\w+)"', page)
    assert found
    answer = admin.get(found[1])
    assert "immutable" in answer["Cache-Control"]
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "\\u5ef6\\u8fdf" in answer.content.decode() or "延迟" in answer.content.decode()
    again = admin.get(found[1], headers={"if-none-match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "/language/" not in admin.get("/c/local/groups").content.decode().split("<body")[0]
    assert admin.get("/language/en.js").status_code == 404
    assert admin.get("/language/../settings.js").status_code == 404


def test_figures_say_their_units_and_months() -> None:
    with translation.override("zh-hans"):
        assert figure_words("3 h 12 m") == "3 小时 12 分钟"
        assert figure_words("210 ms") == "210 毫秒"
        assert figure_words("12 Mar 12:02:41") == "3月12日 12:02:41"
        assert figure_words("12 Mar 2025 12:02:41") == "2025年3月12日 12:02:41"
        assert figure_words("1.9 MB of 5 msg/s") == "1.9 MB of 5 msg/s"
    with translation.override("en"):
        assert figure_words("3 h 12 m") == "3 h 12 m"


def test_errors_of_the_framework_are_in_chinese() -> None:
    with translation.override("zh-hans"):
        for password in ("x1", "maria-lopez1"):
            with pytest.raises(ValidationError) as refused:
                validate_password(password, User(username="maria-lopez1"))
            assert not re.search("[A-Za-z]", " ".join(refused.value.messages))
        with pytest.raises(ValidationError, match="最多 3 个字符，现有 4 个。"):
            CharField(max_length=3).clean("abcd")
