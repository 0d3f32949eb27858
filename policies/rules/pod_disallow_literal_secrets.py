"""Keys reach containers by reference."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

NAMES = re.compile(r"(?i)(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
OPTIONS = re.compile(r"(?i)^--?([a-z]+[-_])*(api[-_]?key|token|password|secret)(=|$)")
SHAPES = re.compile(
    r"\b(hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|ghp_[A-Za-z0-9]{30,})\b|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.containers:
        for entry in container.at("env").each():
            literal = entry.at("value")
            if NAMES.search(entry.at("name").text()) and (literal.text() or not entry.at("valueFrom", "configMapKeyRef").absent):
                yield found(literal, "is the value of a variable that is named like a key")
            elif SHAPES.search(literal.text()):
                yield found(literal, "has the shape of a key")
        for field in container.arguments:
            if SHAPES.search(field.text()) or (OPTIONS.match(field.text()) and "$(" not in field.text()):
                yield found(field, "carries a key on the command line")


RULE = Rule(
    id="pod-disallow-literal-secrets",
    title="Keys reach containers by reference",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.4.1",
        "NSA-CISA: secrets",
        "inference",
    ),
    why="A key in an environment value or an argument stands in every plan, every `kubectl describe` and every log of the process list",
    remedy="put the key in a Secret and use env[].valueFrom.secretKeyRef",
    subject=PODS,
    check=_check,
)
