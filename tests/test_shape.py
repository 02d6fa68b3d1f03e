"""The house's limits: sizes of functions and modules, names of modules, a package for every test folder."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("brokerd", "consumers", "console", "api", "spark")
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
FOLDER_MODULES_MAX = 15
# The hot path may be long where a measurement says so (docs/architecture.md); each with its reason.
LONG_FUNCTIONS: dict[str, str] = {}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "shared"}


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_it_keeps_functions_short() -> None:
    too_long = {}
    for path in modules(*PACKAGES, "tests"):
        for node in functions(ast.parse(path.read_text())):
            name = f"{path.relative_to(ROOT)}:{node.name}"
            if length(node) > FUNCTION_LINES_MAX and name not in LONG_FUNCTIONS:
                too_long[name] = length(node)
    assert too_long == {}


def test_it_keeps_modules_short() -> None:
    sizes = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in modules(*PACKAGES, "tests")}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES_MAX} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_it_keeps_folders_small(package: str) -> None:
    """At most 15 modules a folder, `__init__` apart: beyond, some of them are one subject and a folder of their own."""
    counts = Counter(str(p.parent.relative_to(ROOT)) for p in modules(package) if p.stem != "__init__")
    assert counts, f"no modules in {package}"
    assert {folder: count for folder, count in counts.items() if count > FOLDER_MODULES_MAX} == {}


def test_it_keeps_style_sheets_and_scripts_short() -> None:
    files = [p for kind in ("css", "js") for p in (ROOT / "static").rglob(f"*.{kind}")]
    assert files, "no static files found"
    sizes = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in files}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES_MAX} == {}


def test_it_names_modules_for_what_they_own() -> None:
    assert [str(p) for p in modules(*PACKAGES) if p.stem in NAMES_THAT_SAY_NOTHING] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_it_says_what_each_module_owns(package: str) -> None:
    """A module with code opens with a docstring."""
    silent = []
    for path in modules(package):
        tree = ast.parse(path.read_text())
        if tree.body and ast.get_docstring(tree) is None:
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_it_makes_every_test_folder_a_package() -> None:
    """Otherwise a mirrored tests/console shadows the product's console."""
    folders = {p.parent for p in (ROOT / "tests").rglob("*.py")}
    assert [str(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []
