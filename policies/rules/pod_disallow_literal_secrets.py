"""Keys reach containers by reference."""

from __future__ import annotations

import re
from itertools import pairwise

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.keys import SHAPES
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.words import Word

NAMES = re.compile(r"(?i)(^|_)(API_?KEYS?|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
OPTIONS = re.compile(r"(?i)^--?([a-z]+[-_])*(api[-_]?key|token|password|secret)$")
# What stands where a key would and is none: nothing, a switch, a reference to another variable, a file.
HARMLESS = re.compile(r"(?i)|true|false|\$\(\w+\)|\$\{?\w+\}?|file:.+|(/[\w.-]{1,40}){2,}")


def _check(container: Container, _: Parameters) -> Findings:
    for entry in container.at("env").each():
        literal, name = entry.at("value"), entry.at("name").text()
        if NAMES.search(name) and not (HARMLESS.fullmatch(literal.text()) and entry.at("valueFrom", "configMapKeyRef").absent):
            yield found(literal, "is the value of a variable that is named like a key")
        elif SHAPES.search(literal.text()):
            yield found(literal, "has the shape of a key")
    for field in (*container.at("command").each(), *container.at("args").each()):
        if SHAPES.search(field.text()):
            yield found(field, "carries a key on the command line")
    for word, following in pairwise((*container.arguments, Word(container.field, ""))):
        option, equals, value = word.text.partition("=")
        told = value if equals else "" if following.text.startswith("-") else following.text
        if OPTIONS.match(option) and not HARMLESS.fullmatch(told):
            yield found(word.field, "carries a key on the command line")


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
    subject=CONTAINERS,
    check=_check,
)
