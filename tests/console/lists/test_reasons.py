"""Rows of a list name their reasons of an unknown by place; the reasons stand beside them once."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.template import Context, Template
from playwright.sync_api import expect, sync_playwright

from tests.e2e.browser import launch

SCRIPTS = Path("static/js")
ROWS = (
    {"lag": None, "reason": "broker-b: connection <refused>"},
    {"lag": None, "reason": 'no "answer"'},
    {"lag": None, "reason": "broker-b: connection <refused>"},
    {"lag": 7},
)
TABLE = Template(
    "{% load figures lists %}<table>{% reasons_once %}<tbody>{% for row in rows %}"
    '<tr><td>{% cell row "lag" "count" %}</td></tr>{% endfor %}</tbody>{% endreasons_once %}</table>'
)


def test_a_reason_of_many_rows_is_sent_once() -> None:
    html = TABLE.render(Context({"rows": ROWS}))
    assert html.count("connection &lt;refused&gt;") == 1
    assert [html.count(f"data-why-at={place}") for place in ('"0"', '"1"')] == [2, 1]
    assert html.endswith(
        "</tbody><template><p>broker-b: connection &lt;refused&gt;</p><p>no &quot;answer&quot;</p></template></table>"
    )


def test_rows_without_a_reason_have_nothing_beside_them() -> None:
    assert TABLE.render(Context({"rows": ROWS[3:]})).endswith("</tbody></table>")


@pytest.mark.browser
def test_the_popover_shows_the_reason_of_its_row() -> None:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page()
        # a page with an address may keep the cookie of its zone
        html = TABLE.render(Context({"rows": ROWS}))
        page.route("http://console.test/", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto("http://console.test/")
        for name in ("figures.js", "shell.js"):
            page.add_script_tag(path=SCRIPTS / name)
        for row, reason in ((0, "broker-b: connection <refused>"), (1, 'no "answer"')):
            page.locator("[data-why-at]").nth(row).focus()
            expect(page.get_by_role("tooltip").locator("p")).to_have_text(reason)
        browser.close()
