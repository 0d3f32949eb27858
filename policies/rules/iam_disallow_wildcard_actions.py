"""Policies name their actions."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.documents import DOCUMENTS, statements

EVERY = re.compile(r"\*+|[^:]+:\*+")


def _check(place: Field, _: Parameters) -> Findings:
    for statement in statements(place):
        if statement.effect == "Allow" and any(EVERY.fullmatch(action) for action in statement.actions):
            yield found(statement.field, "allows every action of a service")
        if statement.effect == "Allow" and "NotAction" in statement.raw:
            yield found(statement.field, "allows every action but some")


RULE = Rule(
    id="iam-disallow-wildcard-actions",
    title="Policies name their actions",
    severity=Severity.CRITICAL,
    refs=(
        "CIS AWS 1.16",
        "Security Hub IAM.1",
        "CKV_AWS_63",
    ),
    why="A star allows what AWS will add tomorrow",
    remedy="list the actions, such as s3:GetObject",
    subject=DOCUMENTS,
    check=_check,
)
