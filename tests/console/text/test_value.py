"""A text as a value: English and Chinese from one id, and the way through JSON."""

from __future__ import annotations

import ast
import copy
import datetime as dt
import json
import pickle
import re
import zoneinfo
from pathlib import Path

import pytest
from django import forms
from django.template import Context, Template
from django.utils import translation
from django.utils.html import format_html

from console.text import Duration, Moment, Names, Span, Text, text_of
from console.text.locale import Locale
from console.text.value import PLACE, of_json, with_json

ROOT = Path(__file__).parent.parent.parent.parent
STAYS = Text("%(number)s queue(s) {stays|stay} unchanged", number=3)
CHINESE = "3 个队列保持不变"
CASES = [
    (Text("unknown words stay"), "unknown words stay", "unknown words stay"),
    (STAYS, "3 queues stay unchanged", "3 个队列保持不变"),
    (
        Text("%(number)s queue(s) {stays|stay} unchanged", number=1),
        "1 queue stays unchanged",
        "1 个队列保持不变",
    ),
    (Text("%(number)s message(s) waiting", number=12_345), "12,345 messages waiting", "12,345 条消息在等待"),
    (
        Text("%(error)s; trying again in %(number)s s", error=Text("it closed the connection"), number=5),
        "it closed the connection; trying again in 5 s",
        "它关闭了连接；5 秒后重试",
    ),
    (Text("%(rate)s msg/s", rate="%(rate)s {a|b} %%"), "%(rate)s {a|b} %% msg/s", "%(rate)s {a|b} %% 条/秒"),
    (Text("of the group's 100 %% quota"), "of the group's 100 % quota", "of the group's 100 % quota"),
    (
        Text.of_parts([Text("A producer still uses it."), Text("Choose at least one.")]),
        "A producer still uses it. Choose at least one.",
        "仍有生产者使用。请至少选择一项。",
    ),
    (
        Text.of_parts([Text.foreign("broker-a · 3 stands."), Text("Choose at least one.")]),
        "broker-a · 3 stands. Choose at least one.",
        "broker-a · 3 stands. 请至少选择一项。",
    ),
    (
        Text.of_parts([Text("not connected"), Text("no answer in time")]),
        "not connected; no answer in time",
        "未连接；应答超时",
    ),
    (Text("Now: %(names)s.", names=Names(["a", "b, c"])), "Now: a, b, c.", "现有：a、b, c。"),
    (Text.of_names(["a", "b", "c"]), "a, b and c", "a、b 和 c"),
    (Text.foreign(Names(n for n in "ab")), "a, b", "a、b"),
    (Text("about %(time)s", time=Duration(11_520_000)), "about 3 h 12 m", "about 3 小时 12 分钟"),
    (
        Text.foreign("CODE: 1 DESC: no such topic"),
        "CODE: 1 DESC: no such topic",
        "CODE: 1 DESC: no such topic",
    ),
    (Text(""), "", ""),
]


@pytest.mark.parametrize(("text", "english", "chinese"), CASES)
def test_it_is_english_anywhere_and_local_on_pages(text: Text, english: str, chinese: str) -> None:
    with translation.override("zh-hans"):
        assert (str(text), text.local()) == (english, chinese)
    with translation.override("en"):
        assert (str(text), text.local()) == (english, english)


@pytest.mark.parametrize("text", [case[0] for case in CASES])
def test_it_comes_back_from_json_as_it_was(text: Text) -> None:
    again = json.loads(json.dumps(text.as_json()), object_hook=of_json)
    for one in (again, copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert (one, one.text, one.values) == (text, text.text, text.values)


def test_a_json_value_keeps_its_texts_among_other_values() -> None:
    row = {"state": "failed", "why": STAYS, "parts": [{"text": STAYS}, 1], "values": None}
    kept = json.loads(json.dumps(with_json(row)), object_hook=of_json)
    assert kept == row
    assert type(kept["why"]) is type(kept["parts"][0]["text"]) is Text


@pytest.mark.parametrize(
    "value", [{"text": "a", "values": [1]}, {"text": "a"}, {"text": "a", "values": {}, "b": 1}]
)
def test_json_of_somebody_else_is_no_text(value: dict[str, object]) -> None:
    assert json.loads(json.dumps(value), object_hook=of_json) == value


class Refused(Exception):
    pass


class WhatForm(forms.Form):
    what = forms.CharField(
        label=Text("Name"),
        max_length=3,
        error_messages={
            "required": Text("Choose at least one."),
            "max_length": Text("no answer in time"),
        },
    )
    where = forms.ChoiceField(choices=[("all", Text("All"))], required=False)


def test_html_has_it_in_the_readers_language_and_escaped() -> None:
    foreign = Text("it does not answer: %(reason)s", reason="<b>")
    page = Template(
        "{{ a }}|{{ b }}|{% firstof a %}|{{ many|join:', ' }}|{% load words %}{{ a|local|slice:':2' }}"
    )
    with translation.override("zh-hans"):
        shown = page.render(
            Context({"a": STAYS, "b": foreign, "many": [Text("not connected"), Text("no answer in time")]})
        )
        assert shown == f"{CHINESE}|没有应答：&lt;b&gt;|{CHINESE}|未连接, 应答超时|3 "
        assert format_html("<i>{}</i>", STAYS) == f"<i>{CHINESE}</i>"


def test_exceptions_and_forms_carry_it() -> None:
    refused = text_of(Refused(STAYS))
    assert (type(refused), refused.values) == (Text, STAYS.values)
    form = WhatForm({})
    with translation.override("zh-hans"):
        shown, too_long = form.as_p(), WhatForm({"what": "long"}).as_p()
    assert all(word in shown for word in ("名称", "请至少选择一项。", "全部")), shown
    assert "应答超时" in too_long


# --- Texts that code makes ----------------------------------------------------------------------------------


def texts_made(tree: ast.AST) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Text"
        and node.args
    ]


def test_code_makes_texts_of_literal_ids_with_a_value_for_each_place() -> None:
    """Else `makemessages` does not see them, or a place stays empty."""
    wrong = []
    for path in sorted((ROOT / "console").rglob("*.py")):
        if path.parent.name == "text":
            continue
        for call in texts_made(ast.parse(path.read_text())):
            where, first = f"{path.relative_to(ROOT)}:{call.lineno}", call.args[0]
            if not isinstance(first, ast.Constant) or len(call.args) != 1:
                wrong.append(f"{where}: not one literal id")
            elif any(one.arg is None for one in call.keywords):
                continue
            elif set(re.findall(r"%\((\w+)\)s", str(first.value))) != {one.arg for one in call.keywords}:
                wrong.append(f"{where}: places and values differ")
            elif "%" in re.sub(PLACE, "", str(first.value)):
                wrong.append(f"{where}: a percent sign is written %%")
    assert wrong == []


def test_names_are_joined_for_the_reader() -> None:
    """What code or a template joins with commas is English to every reader."""
    joined = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in (ROOT / "console").rglob("*.py")
        for call in texts_made(ast.parse(path.read_text()))
        for value in call.keywords
        if ast.unparse(value.value).startswith("', '.join(")
    ]
    in_templates = [
        str(path) for path in (ROOT / "templates").rglob("*.html") if '|join:", "' in path.read_text()
    ]
    assert joined + in_templates == []


SHANGHAI = zoneinfo.ZoneInfo("Asia/Shanghai")
NOW_S = 1_773_288_374  # 2026-03-12 04:06:14 UTC
NOW_MS = NOW_S * 1000


def ms(time: str) -> int:
    return int(dt.datetime.fromisoformat(time + "Z").timestamp() * 1000)


TIMES = [
    # a figure, in English, for a reader in Shanghai on that day
    (Moment(ms("2026-03-12T04:00:00")), "2026-03-12 04:00:00 UTC", "12:00:00 UTC+8"),
    (Moment(ms("2026-03-11T05:00:00")), "2026-03-11 05:00:00 UTC", "11 Mar 13:00:00 UTC+8"),
    (
        Span(ms("2026-03-12T04:00:00"), ms("2026-03-12T04:06:14")),
        "2026-03-12 04:00:00–04:06:14 UTC",
        "12:00:00–12:06:14 UTC+8",
    ),
    (
        Span(ms("2026-03-11T23:00:00"), ms("2026-03-12T01:00:00")),
        "2026-03-11 23:00:00 – 2026-03-12 01:00:00 UTC",
        "07:00:00–09:00:00 UTC+8",
    ),
    (
        Span(ms("2026-03-10T15:00:00"), ms("2026-03-11T22:00:00")),
        "2026-03-10 15:00:00 – 2026-03-11 22:00:00 UTC",
        "10 Mar 23:00:00 – 06:00:00 UTC+8",
    ),
    (
        Span(ms("2026-03-12T04:00:00"), ms("2026-03-12T04:00:00") + 999),
        "2026-03-12 04:00:00 UTC",
        "12:00:00 UTC+8",
    ),
]


@pytest.mark.parametrize(("figure", "english", "shown"), TIMES)
def test_times_are_in_the_zone_of_the_reader(
    figure: Moment | Span, english: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.text.value.time.time", lambda: NOW_S)
    sentence = Text("silent since %(time)s: %(reason)s", time=figure, reason="<refused>")
    assert sentence == f"silent since {english}: <refused>"
    with Locale("en", SHANGHAI).active():
        assert sentence.local() == f"silent since {shown}: <refused>"
        plain = re.sub(r"</?(time|span)[^>]*>", "", sentence.html())
        assert plain == f"silent since {shown}: &lt;refused&gt;"
    assert json.loads(json.dumps(sentence.as_json()), object_hook=of_json) == sentence


def test_a_time_has_its_popover() -> None:
    at_ms = ms("2025-03-12T04:00:00")
    with Locale("zh-hans", SHANGHAI).active():
        assert Text("%(time)s", time=Moment(at_ms)).html() == (
            f'<time data-at="{at_ms}" data-as="moment">2025年3月12日 12:00:00</time> <span data-zone-name>UTC+8</span>'
        )


def test_no_line_break_parts_a_duration() -> None:
    with translation.override("en"):
        assert Duration(115_000).html() == "1\u00a0m\u00a055\u00a0s"
    with translation.override("zh-hans"):
        assert Duration(115_000).html() == '<span class="nowrap">1 分钟 55 秒</span>'
