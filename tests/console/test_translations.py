"""The catalogues in `locale/`: complete, compiled, with the same places in both languages, about sentences that are.

Whoever changes a text sees here what is missing: run `django-admin makemessages` and `compilemessages` as
docs/architecture.md says, and write the Chinese.
"""

from __future__ import annotations

import ast
import gettext
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.text.kept_sentences import SENTENCES
from console.text.sentences import PLACE

ROOT = Path(__file__).parent.parent.parent
LOCALE = Path("locale/zh_Hans/LC_MESSAGES")
DOMAINS = ("django", "djangojs")
# Outside console/: errors of the client runtime that are reasons of unknown figures.
ALSO_SHOWN = (
    "consumers/errors.py",
    "consumers/client/remoting_client.py",
    "spark/lag/local_time.py",
    "spark/rows/part_files.py",
    "spark/lag/round/status.py",
)
NAMED = re.compile(r"%\((\w+)\)s")
MARKUP = re.compile(r"</?[a-z]+")
ENGLISH = re.compile(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}")  # three words in a row are no name


def catalogue(path: Path) -> gettext.GNUTranslations:
    with path.open("rb") as file:
        return gettext.GNUTranslations(file)


def entries(path: Path) -> dict[str, str]:
    """English → Chinese; of a plural the one Chinese form."""
    found = {}
    for key, value in catalogue(path)._catalog.items():  # type: ignore[attr-defined]
        text = key[0] if isinstance(key, tuple) else key
        if text:
            found[text.split("\x04")[-1]] = value
    return found


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with catalogues as `makemessages` leaves them: it writes beside what it reads."""
    home = tmp_path_factory.mktemp("messages")
    for folder in ("console", "templates", "locale"):
        shutil.copytree(ROOT / folder, home / folder, ignore=shutil.ignore_patterns("__pycache__", "*.mo"))
    shutil.copytree(ROOT / "static/js", home / "static/js")
    paths = os.pathsep.join([str(home), str(ROOT)])
    known = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONPATH": paths}
    for domain in DOMAINS:
        command = [sys.executable, "-m", "django", "makemessages", "-l", "zh_Hans", "-d", domain]
        done = subprocess.run(
            [*command, "--no-wrap", "--no-location", "--no-obsolete"],
            cwd=home,
            env={**known, "TIDEMARK_DATA": str(home / "var")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr} (needs gettext: apt-get install gettext)"
    return home / LOCALE


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_text_of_pages_and_scripts_is_translated(extracted: Path, domain: str) -> None:
    for wish in ("--untranslated", "--only-fuzzy"):
        found = subprocess.run(
            ["msgattrib", wish, "--no-wrap", str(extracted / f"{domain}.po")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        missing = re.findall(r'^msgid "(.+)"$', found, flags=re.M)
        assert not missing, f"{wish[2:]} in {domain}.po"


@pytest.mark.parametrize("domain", DOMAINS)
def test_catalogues_hold_no_text_that_is_gone(extracted: Path, domain: str) -> None:
    def texts(path: Path) -> set[str]:
        return set(re.findall(r'^msgid "(.+)"$', path.read_text(), flags=re.M))

    assert texts(ROOT / LOCALE / f"{domain}.po") <= texts(extracted / f"{domain}.po")


@pytest.mark.parametrize("domain", DOMAINS)
def test_compiled_catalogues_say_what_the_sources_say(tmp_path: Path, domain: str) -> None:
    source = ROOT / LOCALE / f"{domain}.po"
    subprocess.run(["msgfmt", "--check-format", "-o", tmp_path / "fresh.mo", source], check=True)
    assert entries(ROOT / LOCALE / f"{domain}.mo") == entries(tmp_path / "fresh.mo")


@pytest.mark.parametrize("domain", DOMAINS)
def test_both_languages_have_the_same_places_and_markup(domain: str) -> None:
    for english, chinese in entries(ROOT / LOCALE / f"{domain}.mo").items():
        assert set(NAMED.findall(english)) == set(NAMED.findall(chinese)), english
        assert sorted(MARKUP.findall(english)) == sorted(MARKUP.findall(chinese)), english
        assert "(s)" not in chinese, english


def test_chinese_is_chinese() -> None:
    for english, chinese in entries(ROOT / LOCALE / "django.mo").items():
        assert not ENGLISH.search(re.sub(r"<code>.*?</code>|<[^>]*>", "", chinese)), (
            f"{english!r} is still {chinese!r}"
        )


def test_pages_and_scripts_say_the_same() -> None:
    pages, scripts = (entries(ROOT / LOCALE / f"{domain}.mo") for domain in DOMAINS)
    differing = {text for text in pages.keys() & scripts.keys() if pages[text] != scripts[text]}
    assert not differing


# ---- sentences that code writes ----


def texts_of_code() -> Iterator[str]:
    """Every text of the console's code and of what it shows from elsewhere, a place where something is put in as \0."""
    for path in (*(ROOT / "console").rglob("*.py"), *(ROOT / name for name in ALSO_SHOWN)):
        if "kept_sentences" in path.parts or "migrations" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (str(one.value) if isinstance(one, ast.Constant) else "\0" for one in node.values)
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def is_written(words: str, code: str) -> bool:
    """Whether code has these words in a row, or in two pieces that it puts together."""
    if words in code:
        return True
    parts = words.split(" ")
    for cut in range(1, len(parts)):
        first, second = (" ".join(part).strip(" ,.:;") for part in (parts[:cut], parts[cut:]))
        if max(cut, len(parts) - cut) >= 2 and first in code and second in code:
            return True
    return False


def test_sentences_that_pages_translate_are_still_written_by_code() -> None:
    code = re.sub(r"\s+", " ", "\n".join(texts_of_code()))
    gone = set()
    for sentence in SENTENCES:
        for part in PLACE.sub("\0", sentence).replace("%%", "%").split("\0"):
            words = part.strip(" .,:;“”()")
            if len(words.split()) >= 2 and not is_written(words, code):
                gone.add(sentence)
    assert not gone, "mend or remove these in console/kept_sentences"
