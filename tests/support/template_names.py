"""The names that a template takes from its context, read from its compiled nodes; nothing is rendered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from django.template import Node, engines
from django.template.base import FilterExpression, NodeList, Variable
from django.template.defaulttags import ForNode, IfNode, RegroupNode, WithNode
from django.template.loader_tags import IncludeNode
from django.template.smartif import TokenBase
from django.templatetags.i18n import BlockTranslateNode

FOLDER = Path(__file__).parent.parent.parent / "templates"
# What every page has: context processors, Django's loop, constants.
EVERYWHERE = {"request", "user", "csrf_token", "messages", "forloop", "block", "True", "False", "None"}
HEAD = re.compile(r"\A{% comment %}\n(.*?)\n{% endcomment %}", re.DOTALL)
INPUT = re.compile(r"(\w+)( \(optional\))?: \S")


def parts() -> list[str]:
    """Return the names of the parts; a base that pages extend is none."""
    paths = [path for path in FOLDER.rglob("_*.html") if not path.read_text().startswith("{% extends")]
    return sorted(str(path.relative_to(FOLDER)) for path in paths)


def stated(name: str) -> dict[str, bool] | None:
    """Return the inputs that the head of a part states, and whether each is required; None without a head.

    The head is a comment: a sentence, then a line for each input, `row: a GroupRow` or `wide (optional): …`.
    """
    head = HEAD.match(Path(f"{FOLDER}/{name}").read_text())
    if head is None:
        return None
    sentence, *lines = head[1].split("\n")
    inputs = [INPUT.match(line) for line in lines]
    if not sentence.endswith(".") or None in inputs:
        return None
    return {found[1]: not found[2] for found in inputs if found is not None}


@cache
def taken(name: str) -> frozenset[str]:
    """Return the names that a template takes, with those that the parts it includes require and are not given."""
    nodes = engines["django"].engine.get_template(name).nodelist  # type: ignore[attr-defined]
    return frozenset(_of_nodes(nodes) - EVERYWHERE)


def _of_nodes(nodes: Iterable[object]) -> set[str]:
    """A name that a tag sets is known to the nodes behind it."""
    found: set[str] = set()
    known: set[str] = set()
    for node in nodes:
        found |= _of(node) - known
        set_here = (
            getattr(node, attribute, None) for attribute in ("target_var", "asvar", "var_name", "variable")
        )
        known |= {name for name in set_here if isinstance(name, str)}
    return found


def _of(value: object) -> set[str]:
    match value:
        case Variable():
            return {value.lookups[0]} if value.lookups else set()
        case FilterExpression():
            arguments = [argument for _, given in value.filters for is_name, argument in given if is_name]
            return _of(value.var) | _of(arguments)
        case TokenBase():
            return _of([value.first, value.second, value.value])
        case Node():
            return _of_tag(value)
        case NodeList():
            return _of_nodes(value)
        case list() | tuple():
            return set().union(*map(_of, value))
        case dict():
            return _of(list(value.values()))
    return set()


def _of_tag(node: Node) -> set[str]:
    match node:
        case ForNode():
            inside = _of(node.nodelist_loop) - set(node.loopvars)
            return _of(node.sequence) | inside | _of(node.nodelist_empty)
        case IfNode():
            return _of([list(branch) for branch in node.conditions_nodelists])
        case RegroupNode():
            return _of(node.target)
        case WithNode():
            return _of(node.extra_context) | (_of(node.nodelist) - set(node.extra_context))
        case IncludeNode():
            return _of(node.extra_context) | _passed_on(node)
        case BlockTranslateNode():
            words = {
                token.contents
                for token in node.singular + (node.plural or [])
                if token.token_type.name == "VAR"
            }
            words -= {*node.extra_context, node.countervar}
            return _of(node.extra_context) | _of(node.counter if node.countervar else None) | words
    return _of([value for name, value in vars(node).items() if name not in ("token", "origin")])


def _passed_on(node: IncludeNode) -> set[str]:
    """Return what the included part requires and the tag does not give."""
    name = node.template.var
    if node.isolated_context or not isinstance(name, str):
        return _of(node.template)
    inputs: Mapping[str, bool] = stated(name) or {}
    return {one for one, is_required in inputs.items() if is_required} - set(node.extra_context)


def ladders(name: str) -> list[str]:
    """Return the values that a template compares in chains of three branches or more: `{% if kind == "a" %}…`."""
    nodes = engines["django"].engine.get_template(name).nodelist  # type: ignore[attr-defined]
    return [value for node in nodes.get_nodes_by_type(IfNode) if (value := _chosen_by(node))]


def _chosen_by(node: IfNode) -> str:
    """Return the one value that every condition compares with a literal; nothing where there are fewer branches."""
    found = set()
    for condition, _ in node.conditions_nodelists:
        if condition is not None:
            found.add(_compared(condition))
    return found.pop() if len(node.conditions_nodelists) > 2 and len(found) == 1 else ""


def _compared(condition: TokenBase) -> str:
    """Return the left side of `==`, of `a == 1 or a == 2` and of `a == 1 and more` too."""
    if getattr(condition, "id", "") in ("or", "and") and condition.first is not None:
        return _compared(condition.first)
    if getattr(condition, "id", "") == "==" and condition.first is not None:
        return str(getattr(condition.first, "text", ""))
    return ""
