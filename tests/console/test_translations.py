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
from pathlib import Path

import pytest

from console.text.outside import IDS

ROOT = Path(__file__).parent.parent.parent
LOCALE = Path("locale/zh_Hans/LC_MESSAGES")
DOMAINS = ("django", "djangojs")
OUTSIDE = ("brokerd/remoting/message", "consumers")  # packages whose texts pages show too
NAMED = re.compile(r"%\((\w+)\)s")
MARKUP = re.compile(r"</?[a-z]+")
ENGLISH = re.compile(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}")  # three words in a row are no name


def catalogue(path: Path) -> gettext.GNUTranslations:
    with path.open("rb") as file:
        return gettext.GNUTranslations(file)


def entries(path: Path) -> dict[str, str]:
    """English, with its context, → Chinese; of a plural the one Chinese form."""
    found = {}
    for key, value in catalogue(path)._catalog.items():  # type: ignore[attr-defined]
        text = key[0] if isinstance(key, tuple) else key
        if text:
            found[text] = value
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


# Words that the glossary has another one for, and where they are right nevertheless.
OTHER_WORDS = {
    "积压": "堆积",
    "消费者组": "消费组",
    "订阅组": "消费组",
    "偏移": "位点",
    "位移": "位点",
    "回放": "重投",
    "重放": "重投",
    "回滚": "撤销",
    "重新平衡": "重平衡",
    "持有者": "所有者",
    "摘除": "排空 (a client), 摘流 (a broker)",
    "(?<!Spark )作业": "任务 (a Spark job: Spark 作业)",
    "(?<![A-Za-z])Topic(?![A-Za-z])": "主题",
}


def test_chinese_keeps_to_its_glossary() -> None:
    strange = [
        f"{word} in: {chinese}"
        for domain in DOMAINS
        for chinese in entries(LOCALE / f"{domain}.mo").values()
        for word in OTHER_WORDS
        if re.search(word, chinese)
    ]
    assert strange == []


def test_pages_and_scripts_say_the_same() -> None:
    pages, scripts = (entries(ROOT / LOCALE / f"{domain}.mo") for domain in DOMAINS)
    differing = {text for text in pages.keys() & scripts.keys() if pages[text] != scripts[text]}
    assert not differing


# ---- texts of packages that may not know the console ----


def test_ids_from_outside_are_written_there() -> None:
    code = {
        node.value
        for folder in OUTSIDE
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(IDS) - code == set()


def test_every_id_of_an_error_of_the_client_runtime_is_in_the_catalogue() -> None:
    tree = ast.parse((ROOT / "consumers/errors.py").read_text())
    texts = {
        statement.value.value
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        if isinstance(statement.targets[0], ast.Name) and statement.targets[0].id == "text"
    }
    reasons = {
        node.args[0].value
        for path in (ROOT / "consumers").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason"
        if isinstance(node.args[0], ast.Constant)
    }
    assert len(texts) == 5 and len(reasons) == 12
    assert texts | reasons <= set(IDS)
