"""Contact sheets of `make pages`: all pictures of a page side by side and what its checks found, one JPEG a page."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Browser

# Both widths of a theme and a language stand side by side, a third of their size.
SHOWN_SCALE = 3
SHEET_WIDTH = 1_300
SHEET_QUALITY = 90
FOLDER = "sheets"
PICTURE = re.compile(r"(?P<page>.+)-(?P<theme>light|dark)-(?P<width>\d+)-(?P<language>en|zh-hans)\.jpg")
STYLE = """<style>
  body { margin: 8px; font: 13px system-ui; background: #888; color: #000 }
  h2 { margin: 0; font-size: 18px } ul { margin: 4px 0; padding-left: 20px; color: #800 }
  .row { display: flex; gap: 8px; align-items: flex-start; margin-bottom: 8px }
</style>"""


def picture_name(page: str, theme: str, width: int, language: str) -> str:
    return f"{page}-{theme}-{width}-{language}.jpg"


def pictures_by_page(folder: Path) -> dict[str, list[re.Match[str]]]:
    """Page → its pictures: light above dark, wide before narrow."""
    found: dict[str, list[re.Match[str]]] = {}
    for path in sorted(folder.glob("*.jpg")):
        if picture := PICTURE.fullmatch(path.name):
            found.setdefault(picture["page"], []).append(picture)
    for pictures in found.values():
        pictures.sort(key=lambda one: (one["theme"] != "light", -int(one["width"]), one["language"]))
    return found


def sheet(page: str, pictures: Sequence[re.Match[str]], found: Sequence[str]) -> str:
    """The sheet of a page as a part of a document beside its pictures."""
    rows: dict[str, list[str]] = {}
    for one in pictures:
        width = int(one["width"]) // SHOWN_SCALE
        image = f'<a href="{one[0]}"><img width="{width}" src="{one[0]}" title="{one[0]}"></a>'
        rows.setdefault(one["theme"], []).append(image)
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in found)
    shown = "".join(f'<div class="row">{"".join(images)}</div>' for images in rows.values())
    return f'<section id="{page}"><h2>{page}</h2><ul>{lines}</ul>{shown}</section>'


def sheets(folder: Path, findings: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the sheet of every page that has a picture in the folder."""
    return {
        page: sheet(page, pictures, findings.get(page, ()))
        for page, pictures in pictures_by_page(folder).items()
    }


def draw(folder: Path, parts: Mapping[str, str], browser: Browser) -> None:
    """Write `sheets/<page>.jpg` of some sheets; the browser, which has their format, scales the pictures."""
    (folder / FOLDER).mkdir(exist_ok=True)
    tab = browser.new_page(viewport={"width": SHEET_WIDTH, "height": 900})
    for page, part in parts.items():
        document = folder / f"{page}.html"
        document.write_text(f"<!doctype html><meta charset=utf-8>{STYLE}{part}")
        tab.goto(document.as_uri())
        tab.screenshot(path=folder / FOLDER / f"{page}.jpg", full_page=True, quality=SHEET_QUALITY)
        document.unlink()
    tab.close()


def write_index(folder: Path, parts: Mapping[str, str]) -> None:
    """Write `index.html` with all sheets."""
    whole = "".join(parts.values()).replace("<img ", '<img loading="lazy" ')
    title = "<!doctype html><meta charset=utf-8><title>Tidemark, every page</title>"
    (folder / "index.html").write_text(title + STYLE + whole)
