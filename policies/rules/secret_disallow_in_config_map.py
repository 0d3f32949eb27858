"""ConfigMaps, annotations and user data contain no secrets."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.keys import SHAPES
from policies.subjects.objects import objects
from policies.subjects.pods import PODS

CONFIG_MAP = "kubernetes:core:ConfigMap"
ANNOTATED = (
    "kubernetes:core:Service",
    "kubernetes:core:Namespace",
    "kubernetes:core:ServiceAccount",
    "kubernetes:networking.k8s.io:Ingress",
)
NAMES = re.compile(r"(?i)^(.*[-_.])?(api[-_]?key|token|password|secret[-_]?key)$")
# Words of a tokenizer, which a model's configuration names like keys: <s>, [PAD], <|im_end|>.
SPECIAL = re.compile(r"(?i)^(.*[-_.])?(bos|eos|pad|unk|sep|cls|mask|eot|eod|eom|image|audio|video|prefix|suffix|middle)[-_]?token$")
USER_DATA = ("aws:ec2:LaunchTemplate", "aws:ec2:Instance")
COMMANDS = re.compile(r"(?i)--?password[= ]\S{6,}|aws_secret_access_key\s*=\s*\S{20,}")


def _check(config: Resource, _: Parameters) -> Findings:
    if config.kind in USER_DATA:
        yield from _of_user_data(config)
        return
    for _name, field in config.at("metadata", "annotations").entries():
        if SHAPES.search(field.text()):
            yield found(field, "contains something that looks like a key")
    if config.kind != CONFIG_MAP:
        return
    for name, field in config.at("data").entries():
        if NAMES.match(name) and not SPECIAL.match(name) and field.text():
            yield found(field, "has the name of a secret")
        elif SHAPES.search(field.text()):
            yield found(field, "contains something that looks like a key")


def _of_user_data(machine: Resource) -> Findings:
    for name in ("userData", "userDataBase64"):
        field = machine.at(name)
        text = field.text()
        # An instance accepts plain text too.
        with contextlib.suppress(binascii.Error):
            text += base64.b64decode(text, validate=True).decode(errors="replace")
        if SHAPES.search(text) or COMMANDS.search(text):
            yield found(field, "contains something that looks like a key")


RULE = Rule(
    id="secret-disallow-in-config-map",
    title="ConfigMaps, annotations and user data contain no secrets",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.4",
        "NSA-CISA: secrets",
    ),
    why=(
        "Anyone who can list a namespace can read its ConfigMaps and annotations, every process of an instance can read its "
        "user data, and all of them appear in plans"
    ),
    remedy="move the value to a Secret and read it with secretKeyRef",
    subject=objects(CONFIG_MAP, *USER_DATA, *PODS.kinds, *ANNOTATED),
    check=_check,
)
