"""Frames: what a block tag puts around the contents that a template gives it."""

from __future__ import annotations

import pytest
from django.template import Context, Template, TemplateSyntaxError

from console.cluster.models import Cluster


def rendered(text: str, **context: object) -> str:
    return Template(text).render(Context(context))


def test_a_banner_frames_its_text_and_its_action() -> None:
    assert rendered('{% banner "warn" %}Slow{% action %}<a>Why</a>{% endbanner %}') == (
        '<div class="banner banner--warn" role="status">'
        '<svg class="glyph" aria-hidden="true"><use href="#s-behind"/></svg><div>Slow</div><a>Why</a></div>'
    )


def test_a_banner_takes_a_shape_and_attributes_of_its_own() -> None:
    text = '{% banner kind shape="stopped" role="alert" data_key=key data_none=nothing hidden=True %}Off{% endbanner %}'
    assert rendered(text, kind="warn", key='a"b', nothing=None) == (
        '<div class="banner banner--warn" role="alert" data-key="a&quot;b" hidden="">'
        '<svg class="glyph" aria-hidden="true"><use href="#s-stopped"/></svg><div>Off</div></div>'
    )


def test_a_card_frames_what_stands_beside_its_heading_and_below() -> None:
    text = '{% card "q-h" title note=note id="queues" %}<a>All</a>{% under %}<p>Rows</p>{% endcard %}'
    assert rendered(text, title="A & B", note="newest first") == (
        '<section class="card" aria-labelledby="q-h" id="queues"><div class="card__head"><h2 id="q-h">A &amp; B</h2>'
        '<span class="note">newest first</span><a>All</a></div><p>Rows</p></section>'
    )


def test_a_card_without_a_division_is_all_body() -> None:
    assert rendered('{% card "q-h" "Queues" class="card card--form" %}<p>Rows</p>{% endcard %}') == (
        '<section class="card card--form" aria-labelledby="q-h"><div class="card__head"><h2 id="q-h">Queues</h2></div>'
        "<p>Rows</p></section>"
    )


@pytest.mark.parametrize(
    "text", ['{% banner "ok" %}', '{% card "a" "b" %}{% under %}{% under %}{% endcard %}']
)
def test_a_frame_that_is_written_wrongly_is_refused(text: str) -> None:
    with pytest.raises(TemplateSyntaxError):
        rendered(text)


def test_the_head_of_a_page_has_actions_only_where_there_are_some() -> None:
    text = '{% pagehead data_key="summary" %}<h1>T</h1>{% actions %} {% if new %}<a></a>{% endif %}{% endpagehead %}'
    assert rendered(text) == (
        '<div class="page__head" data-key="summary"><div class="page__title"><h1>T</h1></div></div>'
    )
    assert rendered(text, new=True).endswith('<div class="actions"> <a></a></div></div>')


def test_a_table_whose_rows_become_blocks_states_its_roles() -> None:
    text = "{% table kind label=name %}<th>Id</th>{% rows %}<tbody></tbody>{% endtable %}"
    assert rendered(text, kind="dt", name=None) == (
        '<div class="tablewrap"><table class="dt"><thead><tr><th>Id</th></tr></thead><tbody></tbody></table></div>'
    )
    assert rendered(text, kind="dt dt--stack", name="Queues") == (
        '<div class="tablewrap"><table class="dt dt--stack" role="table" aria-label="Queues"><thead role="rowgroup">'
        '<tr role="row"><th>Id</th></tr></thead><tbody></tbody></table></div>'
    )


def test_a_form_of_one_button_carries_the_token_against_forgery() -> None:
    text = '{% post_button "/a" word "sm" "undo" small=True id="b" form_class="row" %}'
    assert rendered(text, word="A & B", csrf_token="t1") == (
        '<form method="post" action="/a" class="row"><input type="hidden" name="csrfmiddlewaretoken" value="t1">'
        '<button class="btn btn--sm" type="submit" id="b"><svg class="icon icon--sm" aria-hidden="true">'
        '<use href="#i-undo"/></svg>A &amp; B</button></form>'
    )


def test_a_place_without_rows_says_so() -> None:
    assert rendered('{% nothing "No queue" why %}', why="<b>") == (
        '<div class="empty empty--low"><h3>No queue</h3><p>&lt;b&gt;</p></div>'
    )


def test_a_sentence_has_no_space_before_punctuation_or_after_a_bound() -> None:
    assert (
        rendered("{% sentence %}\n A\n <b>B</b>\n , C\n ; D 1.5 :x\n{% endsentence %}")
        == "A\n <b>B</b>, C; D 1.5:x"
    )
    assert rendered('{% sentence %}A\n <i a="b">\n, B</i>{% endsentence %}') == 'A<i a="b">, B</i>'
    assert rendered("{% sentence %}<i>≥</i>\n 5{% endsentence %}") == "<i>≥</i>\n 5"
    assert rendered("{% sentence %}<span>≥</span>\n 5{% endsentence %}") == "<span>≥</span>5"
    assert rendered("{% sentence %}甲。\n 乙：\n 丙 （x）\n 丁{% endsentence %}") == "甲。乙：丙（x）丁"
    assert rendered("{% note %} a\n ，b {% endnote %}") == '<span class="note">a，b</span>'


def test_the_query_of_an_address_leaves_out_what_is_empty() -> None:
    text = "/a{% query topic=topic at=row|place key=none %}{% query none=none %}"
    row = {"broker_name": "a&b", "queue_id": 0, "queue_offset": 0}
    assert (
        rendered(text, topic="%DLQ%é", row=row, none=None) == "/a?topic=%25DLQ%25%C3%A9&amp;at=a%26b%3A0%3A0"
    )


def test_a_figure_of_a_strip_has_a_line_below_only_where_there_is_one() -> None:
    text = """{% stat _('In <span class="unit">/s</span>') css="word" %}<b>5</b>{% sub %}all{% endstat %}"""
    assert rendered(text) == (
        '<div><dt>In <span class="unit">/s</span></dt><dd class="word"><b>5</b></dd><dd class="sub">all</dd></div>'
    )
    assert rendered('{% stat "A < B" data_key="a" %}5{% endstat %}') == (
        '<div data-key="a"><dt>A < B</dt><dd>5</dd></div>'
    )


def test_a_chart_says_what_it_shows_and_whether_it_waits() -> None:
    assert rendered('{% chart "low" label id="a" data_slo=slo waits=True %}', label="A & B", slo=5) == (
        '<div class="card__body"><div class="chart chart--low is-waiting">'
        '<canvas role="img" aria-label="A &amp; B" id="a" data-slo="5"></canvas></div></div>'
    )


def test_the_way_to_a_page_leaves_out_what_has_no_address() -> None:
    text = '{% load shell %}{% crumbs "groups" url name none "Gone" %}'
    assert rendered(text, cluster=Cluster(name="c"), url="/a", name="A & B", none="") == (
        '<nav class="crumbs" aria-label="Breadcrumb"><a href="/c/c/groups">Groups</a><span>/</span>'
        '<a href="/a">A &amp; B</a><span>/</span></nav>'
    )


def test_only_parts_that_one_side_has_are_marked() -> None:
    assert (
        rendered("{{ parts|expression }}", parts=[("a", False), ("<b>", True)]) == "a||<mark>&lt;b&gt;</mark>"
    )


@pytest.mark.parametrize(
    "frame",
    [
        "{%% pagehead %%}%s{%% endpagehead %%}",
        '{%% banner "ok" %%}%s{%% endbanner %%}',
        "{%% note %%}%s{%% endnote %%}",
    ],
)
def test_no_space_follows_full_width_punctuation(frame: str) -> None:
    assert "<b>已完成。</b>共 3 条，无误。" in rendered(frame % "<b>已完成。</b>\n 共 3 条， 无误。")
    assert "<b>Done.</b> 3 rows" in rendered(frame % "<b>Done.</b> 3 rows")
