"""What a machine can find wrong with a rendered page: overflow, texts cut off, empty cards, and what axe-core finds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import axe_playwright_python
from playwright.sync_api import Page

# Both are evaluated by the browser's debugger: the pages' policy allows no script of others.
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
LAYOUT = (Path(__file__).parent / "page_checks.js").read_text()
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
# Without `preload` axe-core does not fetch the style sheets, which no rule of these tags reads.
RUN_AXE = """async ({ tags, rules }) => {
  const runOnly = rules.length ? { type: "rule", values: rules } : { type: "tag", values: tags };
  const { violations } = await axe.run(document, { runOnly, resultTypes: ["violations"], preload: false });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
    ({ rule: id, at: target.flat().join(" "), why: failureSummary.split("\\n").slice(1).join(" ").trim() })));
}"""


@dataclass(frozen=True)
class Violation:
    """`rule` is one of axe-core's, of `page_checks.js` (scroll bar: for a few pixels), or status, console, waits."""

    rule: str
    at: str
    why: str


class Accepted(NamedTuple):
    """A violation that stays, and why: three regular expressions and a reason."""

    rule: str
    pages: str
    at: str
    reason: str


PLACES_SHOWN, PAGES_SHOWN = 8, 4
ACCEPTED = (
    Accepted("cut off", "^(message|dead-letters-group)", r"td\.preview", "a click opens the body in full"),
    Accepted("", "^api-docs$", "", "Swagger UI is rendered as its package has it"),
)


@dataclass(frozen=True)
class Finding:
    """A violation on one page; `look`: its theme, width and language."""

    page: str
    look: str
    violation: Violation

    @property
    def is_accepted(self) -> bool:
        violation = self.violation
        return any(
            re.search(one.rule, violation.rule)
            and re.search(one.pages, self.page)
            and re.search(one.at, violation.at)
            for one in ACCEPTED
        )


def layout_violations(page: Page) -> list[Violation]:
    return [Violation(**one) for one in page.evaluate(LAYOUT)]


def axe_violations(page: Page, *rules: str) -> list[Violation]:
    """Run axe-core; with `rules`, only these."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    return [Violation(**one) for one in page.evaluate(RUN_AXE, {"tags": TAGS, "rules": list(rules)})]


def table(findings: Iterable[Finding]) -> tuple[str, int]:
    """A paragraph for each violation, the most frequent rules first, and how many findings are accepted."""
    by_rule: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    accepted = 0
    for finding in findings:
        if finding.is_accepted:
            accepted += 1
        else:
            by_rule[finding.violation.rule][finding.violation.at].append(finding)
    lines = []
    for rule, by_place in sorted(by_rule.items(), key=lambda row: -len(row[1])):
        lines.append(f"{rule}: {sum(map(len, by_place.values()))} in {len(by_place)} places")
        for place, found in sorted(by_place.items())[:PLACES_SHOWN]:
            looks = sorted({f"{one.page} ({one.look})" for one in found})
            more = f" and {len(looks) - PAGES_SHOWN} more" * (len(looks) > PAGES_SHOWN)
            lines += [
                f"  {place}",
                f"    {found[0].violation.why}",
                f"    {', '.join(looks[:PAGES_SHOWN])}{more}",
            ]
        if len(by_place) > PLACES_SHOWN:
            lines.append(f"  and {len(by_place) - PLACES_SHOWN} places more")
    return "\n".join(lines), accepted


def by_page(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """Page → a line for each rule that it breaks, with the looks that do; without what is accepted."""
    looks: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for finding in findings:
        if not finding.is_accepted:
            looks[finding.page][finding.violation.rule].add(finding.look)
    return {
        page: [f"{rule} ({', '.join(sorted(seen))})" for rule, seen in sorted(rules.items())]
        for page, rules in sorted(looks.items())
    }
