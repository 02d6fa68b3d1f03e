"""A document that the code cites is in docs/reference, with the section it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PACKAGES = ("brokerd", "consumers", "tests/brokerd", "tests/consumers")
NUMBER = r"\d+(?:\.\d+)*"
CITATION = re.compile(
    rf"\b(protocol|semantics|store-format)(?: reference)? (?:sections? |§)?({NUMBER}"
    rf"(?:(?:,| and| to)(?: in)? §?{NUMBER})*)"
)
RULE = re.compile(rf"\bhot-path(?:\.md)? rules? ({NUMBER})")


def sections(document: str) -> set[str]:
    """Numbers of the headings of a document, and of what stands under them as a numbered list."""
    text = (REFERENCE / f"{document}.md").read_text()
    return set(re.findall(rf"^#+ ({NUMBER})\b", text, re.MULTILINE))


def cited() -> Iterator[tuple[str, str, str]]:
    """(file, document, section) of each citation."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = re.sub(r"\s*\n\s*#?\s*", " ", path.read_text())
            for document, numbers in CITATION.findall(text):
                for number in re.findall(NUMBER, numbers):
                    yield str(path.relative_to(ROOT)), document, number


@pytest.mark.parametrize("document", ["protocol", "semantics", "store-format"])
def test_it_cites_sections_that_exist(document: str) -> None:
    numbers = [(file, number) for file, other, number in cited() if other == document]
    assert len(numbers) > 10, "the pattern finds no citations any more"
    known = sections(document)
    assert [(file, number) for file, number in numbers if number not in known] == []


def test_it_cites_rules_of_the_hot_path_that_exist() -> None:
    rules = set(re.findall(r"^(\d+)\. ", (REFERENCE / "hot-path.md").read_text(), re.MULTILINE))
    numbers = [
        n for package in PACKAGES for p in (ROOT / package).rglob("*.py") for n in RULE.findall(p.read_text())
    ]
    assert numbers, "the pattern finds no citations any more"
    assert [number for number in numbers if number not in rules] == []
