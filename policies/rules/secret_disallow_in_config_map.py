"""ConfigMaps hold no keys."""

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
            yield found(field, "holds something of the shape of a key")
    if config.kind != CONFIG_MAP:
        return
    for name, field in config.at("data").entries():
        if NAMES.match(name) and not SPECIAL.match(name) and field.text():
            yield found(field, "is named like a key")
        elif SHAPES.search(field.text()):
            yield found(field, "holds something of the shape of a key")


def _of_user_data(machine: Resource) -> Findings:
    for name in ("userData", "userDataBase64"):
        field = machine.at(name)
        text = field.text()
        # An instance takes it in clear too.
        with contextlib.suppress(binascii.Error):
            text += base64.b64decode(text, validate=True).decode(errors="replace")
        if SHAPES.search(text) or COMMANDS.search(text):
            yield found(field, "holds something of the shape of a key")


RULE = Rule(
    id="secret-disallow-in-config-map",
    title="ConfigMaps, annotations and user data hold no keys",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.4",
        "NSA-CISA: secrets",
    ),
    why="A ConfigMap or an annotation is readable by everybody who may list the namespace, user data by every process of the machine, and all are shown in every plan",
    remedy="move the value to a Secret, and read it by secretKeyRef",
    subject=objects(CONFIG_MAP, *USER_DATA, *PODS.kinds, *ANNOTATED),
    check=_check,
)
