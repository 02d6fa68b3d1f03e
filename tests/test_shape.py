"""The house's limits: sizes of functions and modules, names of modules, a package for every test folder."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("brokerd", "consumers", "console", "api", "spark")
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
FOLDER_MODULES_MAX = 15
# Packages of which every module has its test module: tests/<folder>/test_<module>.py.
MIRRORED = ("brokerd", "consumers")
# Modules without one, and the tests that run them: what they do shows only together with their neighbours.
TESTED_ELSEWHERE = {
    "brokerd/acl/access_control.py": "tests/brokerd/acl/test_plain_permission.py",
    "brokerd/acl/plain_rights.py": "tests/brokerd/acl/test_plain_permission.py",
    "brokerd/filter/sql_operands.py": "tests/brokerd/filter/test_sql_parser.py",
    "brokerd/ha/ha_client.py": "tests/brokerd/ha/test_slave.py",
    "brokerd/ha/ha_service.py": "tests/brokerd/ha/test_slave.py",
    "brokerd/ha/slave_synchronize.py": "tests/brokerd/ha/test_slave.py",
    "brokerd/namesrv/registration.py": "tests/brokerd/processor/test_route.py",
    "brokerd/processor/admin/acl.py": "tests/brokerd/acl/test_plain_permission.py",
    "brokerd/processor/admin/auth.py": "tests/brokerd/acl/test_auth_manager.py",
    "brokerd/processor/broker.py": "tests/brokerd/test_golden.py",
    "brokerd/processor/client/client_notify.py": "tests/brokerd/processor/client/test_client_manage.py",
    "brokerd/processor/client/expression_type.py": "tests/brokerd/processor/consumer/test_sql_filter.py",
    "brokerd/processor/consumer/consumer_manage.py": "tests/brokerd/processor/client/test_client_manage.py",
    "brokerd/processor/consumer/pop_read.py": "tests/brokerd/processor/consumer/test_pop_message.py",
    "brokerd/processor/guard.py": "tests/brokerd/acl/test_plain_permission.py",
    "brokerd/processor/slave.py": "tests/brokerd/ha/test_slave.py",
    "brokerd/remoting/body/acl.py": "tests/brokerd/acl/test_auth_manager.py",
    "brokerd/remoting/body/broker.py": "tests/brokerd/remoting/body/test_json_body.py",
    "brokerd/remoting/body/route.py": "tests/brokerd/remoting/body/test_json_body.py",
    "brokerd/remoting/codes.py": "tests/brokerd/remoting/test_golden_frames.py",
    "brokerd/remoting/header/acl.py": "tests/brokerd/processor/test_handlers.py",
    "brokerd/remoting/header/broker.py": "tests/brokerd/processor/test_handlers.py",
    "brokerd/remoting/header/client.py": "tests/brokerd/processor/test_handlers.py",
    "brokerd/remoting/header/group.py": "tests/brokerd/processor/test_handlers.py",
    "brokerd/remoting/header/offset.py": "tests/brokerd/processor/test_handlers.py",
    "brokerd/remoting/header/route.py": "tests/brokerd/processor/test_handlers.py",
    "brokerd/remoting/header/topic.py": "tests/brokerd/processor/test_handlers.py",
    "brokerd/store/cold_pages.py": "tests/brokerd/test_cold_reads.py",
    "brokerd/store/derived_flush.py": "tests/brokerd/store/test_flushing.py",
    "brokerd/store/errors.py": "tests/brokerd/store/test_message_store.py",
    "brokerd/store/queue/consume_queue_table.py": "tests/brokerd/test_queue_files.py",
    "brokerd/store/recovery/log_inspection.py": "tests/brokerd/store/recovery/test_opening.py",
    "brokerd/store/recovery/repair.py": "tests/brokerd/test_store_commands.py",
    "brokerd/store/recovery/survey.py": "tests/brokerd/test_store_commands.py",
    "brokerd/store/results.py": "tests/brokerd/store/test_message_store.py",
    "consumers/admin/calls.py": "tests/consumers/admin/test_mqadmin.py",
    "consumers/admin/groups.py": "tests/consumers/admin/test_mqadmin.py",
    "consumers/admin/messages.py": "tests/consumers/admin/test_mqadmin.py",
    "consumers/admin/offsets.py": "tests/consumers/admin/test_mqadmin.py",
    "consumers/admin/topics.py": "tests/consumers/admin/test_mqadmin.py",
    "consumers/client/client_instance.py": "tests/consumers/consumer/test_push_consumer.py",
    "consumers/client/queue_offsets.py": "tests/consumers/consumer/test_pull_consumer.py",
    "consumers/config.py": "tests/consumers/producer/test_producer.py",
    "consumers/consumer/consumer.py": "tests/consumers/consumer/test_pull_consumer.py",
    "consumers/producer/outgoing.py": "tests/consumers/producer/test_producer.py",
}
# The hot path may be long where a measurement says so (docs/architecture.md); each with its reason.
LONG_FUNCTIONS: dict[str, str] = {}
# Lines of console and api with a dictionary of anything: edges, where a framework or the JSON of others dictates it.
DICTIONARY = re.compile(r"(dict|Mapping)\[str, Any\]|RowDict")
DICTIONARY_LINES_MAX = 19
# Lines that name such an edge: a JSON object, the context of a template, parameters that are not read yet.
NAMED_EDGE = re.compile(r"\b(JsonObject|PageContext|RawParams|SocketScope)\b(?!:)")
NAMED_EDGE_LINES_MAX = 30
# Words of no field, as parts of names: what they stand for has a name of its own.
NO_NAMES = {
    "wish",
    "deed",
    "told",
    "asked",
    "said",
    "say",
    "hear",
    "heard",
    "knows",
    "wants",
    "forget",
    "tend",
    "worn",
    "nobody",
    "somebody",
    "whoever",
}
# Names outside the code: columns, tasks in queues, contexts of templates. Only ever fewer.
OLD_NAMES = {
    "console/lag/models.py: clients_told",
    "console/lag/round/figures.py: clients_told",
    "console/lag/tasks.py: tend_own_log",
}
TEMPLATE_LINE_MAX = 120
STATIC_LINE_MAX = 120  # of .css and .js
# Modules that a framework looks for by their name.
NAMES_GIVEN = {"console/postgresql/base.py"}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "shared"}


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


@dataclass(frozen=True, slots=True)
class Outline:
    """What the tests ask of a module: its functions with their lengths, all names it defines, whether it opens with a
    docstring.
    """

    functions: list[tuple[str, int]]
    names: set[str]
    is_silent: bool


@functools.cache
def outline(path: Path) -> Outline:
    """Parse a module, once for all tests."""
    tree = ast.parse(path.read_text())
    functions, names = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            functions.append((node.name, node.end_lineno - node.lineno + 1))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return Outline(functions, names, bool(tree.body) and ast.get_docstring(tree) is None)


def test_it_keeps_functions_short() -> None:
    too_long = {}
    for path in modules(*PACKAGES, "tests"):
        for function, length in outline(path).functions:
            name = f"{path.relative_to(ROOT)}:{function}"
            if length > FUNCTION_LINES_MAX and name not in LONG_FUNCTIONS:
                too_long[name] = length
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


def lines_with(pattern: re.Pattern[str], *folders: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in modules(*folders)
        for line in path.read_text().splitlines()
        if pattern.search(line) and not line.startswith(("from ", "import "))
    ]


def test_it_keeps_dictionaries_at_the_edges() -> None:
    """After parsing a value is a dataclass or a struct. Only ever fewer."""
    found = lines_with(DICTIONARY, "console", "api")
    assert len(found) <= DICTIONARY_LINES_MAX, "\n".join(found)
    named = lines_with(NAMED_EDGE, "console", "api")
    assert len(named) <= NAMED_EDGE_LINES_MAX, "\n".join(named)


def test_it_names_things_in_words_of_the_field() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(*PACKAGES)
        for name in outline(path).names
        if NO_NAMES & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    }
    assert found == OLD_NAMES


def static_files() -> list[Path]:
    files = [p for kind in ("css", "js") for p in sorted((ROOT / "static").rglob(f"*.{kind}"))]
    assert files, "no static files found"
    return files


def test_it_keeps_lines_of_style_sheets_and_scripts_short() -> None:
    """Beyond the limit there is only a sentence: the catalogue of translations holds it in one piece."""
    long = []
    for path in static_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > STATIC_LINE_MAX and not line.lstrip().startswith('"'):
                long.append(f"{path.relative_to(ROOT)}:{number}")
    assert long == []


def test_it_keeps_style_sheets_and_scripts_short() -> None:
    sizes = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in static_files()}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES_MAX} == {}


def test_it_keeps_lines_of_templates_short() -> None:
    long = []
    for path in sorted((ROOT / "templates").rglob("*.html")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > TEMPLATE_LINE_MAX:
                long.append(f"{path.relative_to(ROOT)}:{number}")
    assert long == []


@pytest.mark.parametrize("package", MIRRORED)
def test_it_has_a_test_module_for_each_module(package: str) -> None:
    without = []
    for path in modules(package):
        folder, name = path.relative_to(ROOT).parent, path.stem.strip("_")
        has_code = path.stem != "__init__" and path.read_text() != ""
        if has_code and not (ROOT / "tests" / folder / f"test_{name}.py").exists():
            without.append(str(path.relative_to(ROOT)))
    named = [module for module in TESTED_ELSEWHERE if module.startswith(f"{package}/")]
    assert without == named
    assert [module for module in named if not (ROOT / TESTED_ELSEWHERE[module]).exists()] == []


def test_it_names_modules_for_what_they_own() -> None:
    unclear = {
        str(path.relative_to(ROOT)) for path in modules(*PACKAGES) if path.stem in NAMES_THAT_SAY_NOTHING
    }
    assert unclear == NAMES_GIVEN


@pytest.mark.parametrize("package", PACKAGES)
def test_it_says_what_each_module_owns(package: str) -> None:
    """A module with code opens with a docstring."""
    assert [str(path.relative_to(ROOT)) for path in modules(package) if outline(path).is_silent] == []


def test_it_makes_every_test_folder_a_package() -> None:
    """Otherwise a mirrored tests/console shadows the product's console."""
    folders = {p.parent for p in (ROOT / "tests").rglob("*.py")}
    assert [str(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []
