"""ConfigMaps hold no keys."""

from __future__ import annotations

import re

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.keys import SHAPES
from policies.subjects.objects import objects

NAMES = re.compile(r"(?i)^(.*[-_.])?(api[-_]?key|token|password|secret[-_]?key)$")


def _check(config: Resource, _: Parameters) -> Findings:
    for name, field in config.at("data").entries():
        if NAMES.match(name) and field.text():
            yield found(field, "is named like a key")
        elif SHAPES.search(field.text()):
            yield found(field, "holds something of the shape of a key")


RULE = Rule(
    id="secret-disallow-in-config-map",
    title="ConfigMaps hold no keys",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.4",
        "NSA-CISA: secrets",
    ),
    why="A ConfigMap is readable by everybody who may list the namespace, and is shown in every plan",
    remedy="move the value to a Secret, and read it by secretKeyRef",
    subject=objects("kubernetes:core:ConfigMap"),
    check=_check,
)
