"""Every verb of an audit event has its words in the catalogue."""

from __future__ import annotations

import ast
from pathlib import Path

from django.utils import translation

from console.access.activity_list import AUDIT_VERBS, sentence_of
from console.operation.rules import JobEventKind

ROOT = Path(__file__).parent.parent.parent.parent


def is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def test_every_verb_that_code_records_is_listed() -> None:
    recorded = set()
    for path in (ROOT / "console").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "verb" and isinstance(node.value, ast.Constant):
                recorded.add(node.value.value)
            if (
                path.name == "admin.py"
                and isinstance(node, ast.Assign)
                and is_named(node.targets[0], "verbs")
            ):
                recorded |= set(ast.literal_eval(node.value))
    assert len(recorded) > 30
    assert recorded | {f"job {kind.value}" for kind in JobEventKind} <= AUDIT_VERBS.keys()


def test_every_verb_has_a_sentence_with_its_object_in_both_languages() -> None:
    for verb in AUDIT_VERBS:
        sentence = sentence_of(verb, "billing")
        assert "billing" in sentence and sentence.split()[0] != verb.split()[0]
        with translation.override("zh-hans"):
            assert "billing" in sentence.local() and sentence.local() != sentence


def test_a_verb_of_another_version_is_shown_as_it_is() -> None:
    assert sentence_of("moved", "billing") == "moved"
