"""Documentation of the rules: one page per rule and an index. All text comes from the rules."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from policies.engine.rule import AnyRule, Rule


def page(rule: AnyRule) -> str:
    """The page of one rule, in Markdown."""
    lines = [
        f"# {rule.id}",
        "",
        f"{rule.title}.",
        "",
        f"- **Severity**: {rule.severity}, {rule.level} by default",
        f"- **Checks**: {_looks_at(rule)}",
        f"- **Mirrors**: {'; '.join(rule.refs)}",
        f"- **Why**: {rule.why}.",
        f"- **What to do**: {rule.remedy[:1].upper()}{rule.remedy[1:]}.",
    ]
    if isinstance(rule, Rule) and rule.remediate is not None:
        lines.append("- **Remediation**: the pack can make this change if the stack sets `inferplan-remediate` to `remediate`.")
    for name, each in rule.parameters.items():
        lines.append(f"- **Parameter `{name}`**: {each.description}.")
    lines += ["", "Settings for this rule in `policies/stacks/<stack>.json`, with the defaults and an example of an exemption:", ""]
    return "\n".join([*lines, "```json", json.dumps(_settings(rule), indent=2), "```", ""])


def _settings(rule: AnyRule) -> dict[str, Any]:
    """Everything that the settings of a stack can hold about a rule, as an example that would be read."""
    settings: dict[str, Any] = {"levels": {rule.id: str(rule.level)}}
    if rule.parameters:
        settings["parameters"] = {rule.id: {name: each.default for name, each in rule.parameters.items()}}
    on_stack = not isinstance(rule, Rule)
    exemption = {
        "rule": rule.id,
        "resource": "stack" if on_stack else "Deployment/chat",
        "path": "" if on_stack else "spec.template.spec",
        "state": "violation",
        "reason": "why the violation is acceptable",
        "owner": "team or person",
        "expires": "2027-01-31",
    }
    settings["exemptions"] = [exemption]
    return settings


def listing(rules: Iterable[AnyRule]) -> str:
    """All rules, one per line."""
    listed = list(rules)
    width = max(len(rule.id) for rule in listed)
    return "".join(f"{rule.id:<{width}}  {rule.severity:<8}  {rule.level:<9}  {rule.title}\n" for rule in listed)


def index(rules: Iterable[AnyRule]) -> str:
    """The table of all rules, in Markdown."""
    rows = [f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.level} | {rule.title} |" for rule in rules]
    head = "# Rules of the policy pack\n\n| Rule | Severity | Level | Requirement |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _looks_at(rule: AnyRule) -> str:
    return "the whole stack" if not isinstance(rule, Rule) else ", ".join(f"`{kind}`" for kind in sorted(rule.subject.kinds))


def write(folder: Path) -> None:
    """Writes the page of every rule and the index into `folder`, and removes pages of rules that are gone."""
    from policies.engine.registry import all_rules

    rules = all_rules().values()
    pages = {f"{rule.id}.md": page(rule) for rule in rules} | {"README.md": index(rules)}
    for path in folder.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
