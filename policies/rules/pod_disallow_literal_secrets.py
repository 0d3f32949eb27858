"""Containers get secrets by reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.keys import SHAPES
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.words import Word

NAMES = re.compile(r"(?i)(^|_)(API_?KEYS?|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
OPTIONS = re.compile(r"(?i)^--?([a-z]+[-_])*(api[-_]?key|token|password|secret)$")
HOOKS = ("lifecycle", "startupProbe", "readinessProbe", "livenessProbe")
BEARER = re.compile(r"(?i)\b(bearer|basic) (?!\$)[\w.~+/=-]{12,}")
# Triton's restricted APIs take their key behind the name of a header.
RESTRICTED = re.compile(r"--(http-restricted-api|grpc-restricted-protocol)[= ][^:]+:[^=]+=(?!(?:Bearer |Basic )?\$)\S+")
# What stands where a key would and is none: nothing, a switch, a reference to another variable, a file.
HARMLESS = re.compile(r"(?i)|true|false|\$\(\w+\)|\$\{?\w+\}?|file:.+|(/[\w.-]{1,40}){2,}")


def _check(container: Container, _: Parameters) -> Findings:
    yield from _of_environment(container)
    yield from _of_command(container)
    for text in (text for name in HOOKS for text in _texts(container.at(name))):
        if SHAPES.search(text.text()) or BEARER.search(text.text()):
            yield found(text, "contains a key in a hook or a probe")


def _of_environment(container: Container) -> Findings:
    for entry in container.at("env").each():
        literal, name = entry.at("value"), entry.at("name").text()
        if NAMES.search(name) and not (HARMLESS.fullmatch(literal.text()) and entry.at("valueFrom", "configMapKeyRef").absent):
            yield found(literal, "is a literal value of a variable whose name suggests a secret")
        elif SHAPES.search(literal.text()):
            yield found(literal, "looks like a key")


def _of_command(container: Container) -> Findings:
    for field in (*container.at("command").each(), *container.at("args").each()):
        if SHAPES.search(field.text()) or RESTRICTED.search(field.text()):
            yield found(field, "contains a key on the command line")
    for word, following in pairwise((*container.arguments, Word(container.field, ""))):
        option, equals, value = word.text.partition("=")
        told = value if equals else "" if following.text.startswith("-") else following.text
        if OPTIONS.match(option) and not HARMLESS.fullmatch(told):
            yield found(word.field, "contains a key on the command line")


def _texts(field: Field) -> Iterator[Field]:
    """Every text below a hook or a probe. Raises FieldError."""
    value = field.value
    if isinstance(value, dict):
        yield from (text for _name, each in field.entries() for text in _texts(each))
    elif isinstance(value, list):
        yield from (text for each in field.each() for text in _texts(each))
    elif isinstance(value, str):
        yield field


RULE = Rule(
    id="pod-disallow-literal-secrets",
    title="Containers get secrets by reference",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.4.1",
        "NSA-CISA: secrets",
        "inference",
    ),
    why="A secret in an environment value or an argument is visible in every plan, in `kubectl describe` and in process lists",
    remedy="put the value into a Secret and use env[].valueFrom.secretKeyRef",
    subject=CONTAINERS,
    check=_check,
)
