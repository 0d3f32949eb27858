"""The page of each rule, for `inferplan check --explain RULE` and for the site. All text comes
from the rules.
"""

import json
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.rule import Rule

_WIDTH = 100


def page(rule: Rule) -> str:
    """The page of one rule, in Markdown that reads well in a terminal too."""
    kinds = ", ".join(sorted(rule.subject.kinds)) if rule.subject else "the whole stack"
    paragraphs = [
        f"{rule.title}.",
        f"Why: {rule.why}.",
        f"Remedy: {rule.remedy}.",
        f"Severity: {rule.severity}, {rule.level} by default",
        f"Checks: {kinds}",
        f"Source: {'; '.join(rule.refs)}",
        *(f"Parameter {name}: {each.description}." for name, each in rule.parameters.items()),
    ]
    if rule.remediate is not None:
        paragraphs.append(
            "Remediation: the pack makes this change if the stack sets `inferplan-remediate` to"
            " `remediate`."
        )
    paragraphs.append(
        "Settings in policies/stacks/<stack>.json, with the defaults and an example of an"
        " exemption:"
    )
    wrapped = (
        textwrap.fill(each, _WIDTH, break_long_words=False, break_on_hyphens=False)
        for each in paragraphs
    )
    return "\n\n".join(
        [f"# {rule.id}", *wrapped, f"```json\n{json.dumps(_settings(rule), indent=2)}\n```\n"]
    )


def _settings(rule: Rule) -> dict[str, Any]:
    """Valid settings that contain everything a stack can set about a rule."""
    exemption = {
        "rule": rule.id,
        "resource": (
            f"{min(each for each in rule.subject.kinds if '*' not in each).rpartition(':')[2]}/name"
            if rule.subject
            else "stack"
        ),
        "path": "the field, as inferplan check prints it",
        "state": "violation",
        "reason": "why the violation is acceptable",
        "owner": "team or person",
        "expires": "2027-01-31",
    }
    parameters = {name: each.default for name, each in rule.parameters.items()}
    return {
        "levels": {rule.id: str(rule.level)},
        **({"parameters": {rule.id: parameters}} if parameters else {}),
        "exemptions": [exemption],
    }


def listing(rules: Iterable[Rule]) -> str:
    listed = list(rules)
    width = max(len(rule.id) for rule in listed)
    return "".join(
        f"{rule.id:<{width}}  {rule.severity:<8}  {rule.level:<9}  {rule.title}\n"
        for rule in listed
    )


def index(rules: Iterable[Rule]) -> str:
    rows = [
        f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.level} | {rule.title} |"
        for rule in rules
    ]
    return "\n".join(
        [
            "# Rules of the policy pack",
            "",
            "| Rule | Severity | Level | Requirement |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def write(folder: Path) -> None:
    rules = all_rules().values()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"README": index(rules), **{rule.id: page(rule) for rule in rules}}.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
