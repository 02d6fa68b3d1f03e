"""Frames: what a block tag puts around the contents that a template gives it."""

from __future__ import annotations

import pytest
from django.template import Context, Template, TemplateSyntaxError


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
def test_a_frame_that_does_not_close_is_refused(text: str) -> None:
    with pytest.raises(TemplateSyntaxError):
        rendered(text)
