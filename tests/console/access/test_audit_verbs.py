"""Every verb of an audit event has its words in the catalogue."""

from __future__ import annotations

import ast
from pathlib import Path

from django.utils import translation

from console.access.activity_list import AUDIT_VERBS
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
    assert recorded | {f"job {kind.value}" for kind in JobEventKind} <= AUDIT_VERBS


def test_every_verb_has_chinese_words() -> None:
    with translation.override("zh-hans"):
        assert [verb for verb in AUDIT_VERBS if translation.gettext(verb) == verb] == []
