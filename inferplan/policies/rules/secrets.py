"""Places that must not hold or read secrets."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from itertools import pairwise

from inferplan.kube.names import COMPONENT_LABEL
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import Parameters, Severity, Violations, resource_rule, stack_rule, violation, violations
from inferplan.policies.rules.keys import SHAPES
from inferplan.policies.rules.routes import SECURITY_POLICY
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from inferplan.policies.subjects.programs import Word

SECRET_VARIABLES = re.compile(r"(?i)(^|_)(API_?KEYS?|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
SECRET_OPTIONS = re.compile(r"(?i)^--?([a-z]+[-_])*(api[-_]?key|token|password|secret)$")
HOOKS = ("lifecycle", "startupProbe", "readinessProbe", "livenessProbe")
BEARER = re.compile(r"(?i)\b(bearer|basic) (?!\$)[\w.~+/=-]{12,}")
# The value of Triton's options is <API>:<header>=<key>.
TRITON_KEY = re.compile(r"--(http-restricted-api|grpc-restricted-protocol)[= ][^:]+:[^=]+=(?!(?:Bearer |Basic )?\$)\S+")
# Values that are not keys: nothing, a boolean, a reference to another variable, a path.
HARMLESS = re.compile(r"(?i)|true|false|\$\(\w+\)|\$\{?\w+\}?|file:.+|(/[\w.-]{1,40}){2,}")
CONFIG_MAP = "kubernetes:core:ConfigMap"
WITH_ANNOTATIONS = (
    "kubernetes:core:Service",
    "kubernetes:core:Namespace",
    "kubernetes:core:ServiceAccount",
    "kubernetes:networking.k8s.io:Ingress",
)
SECRET_ENTRIES = re.compile(r"(?i)^(.*[-_.])?(api[-_]?key|token|password|secret[-_]?key)$")
# Special tokens of a tokenizer, such as <s>, [PAD] or <|im_end|>.
TOKENIZER_ENTRIES = re.compile(
    r"(?i)^(.*[-_.])?(bos|eos|pad|unk|sep|cls|mask|eot|eod|eom|image|audio|video|prefix|suffix|middle)[-_]?token$"
)
USER_DATA = ("aws:ec2:LaunchTemplate", "aws:ec2:Instance")
# Nodes with a custom image get the cluster's address and certificate, which a plan does not know, and the labels and taints of the pool.
_OUR_POOL = "inferplan:nodes:EksNodePool"
SECRET_COMMANDS = re.compile(r"(?i)--?password[= ]\S{6,}|aws_secret_access_key\s*=\s*\S{20,}")
# Common names of Secrets with the keys of consumers, in case no policy of the stack refers to them.
CONSUMER_KEYS = re.compile(r"(^|-)(gateway|consumer|client|api)-keys?\Z")


@resource_rule(CONTAINERS, Severity.CRITICAL, "CIS EKS 4.4.1; NSA-CISA: secrets; inference")
def pod_disallow_literal_secrets(container: Container, _: Parameters) -> Violations:
    """Containers get secrets by reference.
    Why: A secret in an environment value or an argument is visible in every plan, in `kubectl describe` and in process lists.
    Remedy: put the value into a Secret and use env[].valueFrom.secretKeyRef.
    """
    yield from _in_environment(container)
    yield from _in_command(container)
    texts = (text for name in HOOKS for text in container.at(name).texts_below())
    yield from violations(
        texts, lambda text: SHAPES.search(text.text()) or BEARER.search(text.text()), "contains a key in a hook or a probe"
    )


def _in_environment(container: Container) -> Violations:
    for entry in container.at("env").each():
        literal, name = entry.at("value"), entry.at("name").text()
        if SECRET_VARIABLES.search(name) and not (HARMLESS.fullmatch(literal.text()) and entry.at("valueFrom", "configMapKeyRef").absent):
            yield violation(literal, "is a literal value of a variable whose name suggests a secret")
        elif SHAPES.search(literal.text()):
            yield violation(literal, "looks like a key")


def _in_command(container: Container) -> Violations:
    problem = "contains a key on the command line"
    fields = (*container.at("command").each(), *container.at("args").each())
    yield from violations(fields, lambda field: SHAPES.search(field.text()) or TRITON_KEY.search(field.text()), problem)
    for word, following in pairwise((*container.arguments, Word(container.field, ""))):
        option, equals, value = word.text.partition("=")
        secret = value if equals else "" if following.text.startswith("-") else following.text
        if SECRET_OPTIONS.match(option) and not HARMLESS.fullmatch(secret):
            yield violation(word.field, problem)


@resource_rule(objects(CONFIG_MAP, *USER_DATA, *PODS.kinds, *WITH_ANNOTATIONS), Severity.CRITICAL, "CIS EKS 4.4; NSA-CISA: secrets")
def secret_disallow_in_config_map(config: Resource, _: Parameters) -> Violations:
    """ConfigMaps, annotations and user data contain no secrets.
    Why: Anyone who can list a namespace can read its ConfigMaps and annotations, every process of an instance can read its user data, and
    all of them appear in plans.
    Remedy: move the value to a Secret and read it with secretKeyRef.
    """
    if config.kind in USER_DATA:
        yield from _in_user_data(config)
        return
    annotations = (field for _name, field in config.at("metadata", "annotations").entries())
    yield from violations(annotations, lambda field: SHAPES.search(field.text()), "contains something that looks like a key")
    for name, field in config.at("data").entries() if config.kind == CONFIG_MAP else ():
        if SECRET_ENTRIES.match(name) and not TOKENIZER_ENTRIES.match(name) and field.text():
            yield violation(field, "has the name of a secret")
        elif SHAPES.search(field.text()):
            yield violation(field, "contains something that looks like a key")


def _in_user_data(instance: Resource) -> Violations:
    for name in ("userData", "userDataBase64"):
        field = instance.at(name)
        if field.unknown and _OUR_POOL in instance.components:
            continue
        text = field.text()
        # An instance accepts plain text too.
        with contextlib.suppress(binascii.Error):
            text += base64.b64decode(text, validate=True).decode(errors="replace")
        if SHAPES.search(text) or SECRET_COMMANDS.search(text):
            yield violation(field, "contains something that looks like a key")


@stack_rule(Severity.CRITICAL, "inference; Kubernetes: Good practices for Secrets")
def stack_restrict_gateway_keys(stack: Stack, _: Parameters) -> Violations:
    """Only the gateway reads the keys of consumers.
    Why: A model server that can read a consumer's key can use it for every other model.
    Remedy: remove the Secret from the pod; a server has its own key.
    """
    pods = [pod for each in stack for pod in _pods(stack, each)]
    secrets = set(_credentials(stack))
    for pod in pods:
        with stack.unreadable:
            if pod.metadata.at("labels", COMPONENT_LABEL).text() == "gateway":
                continue
            namespace = pod.resource.namespace
            for field in _secret_names(pod):
                if (namespace, field.text()) in secrets or CONSUMER_KEYS.search(field.text()):
                    yield violation(field, "contains keys that only the gateway needs")


def _pods(stack: Stack, resource: Resource) -> tuple[PodTemplate, ...]:
    with stack.unreadable:
        if resource.kind in PODS.kinds:
            return resource.parts(PODS)
    return ()


def _credentials(stack: Stack) -> Iterator[tuple[str, str]]:
    """Namespace and name of the Secrets with the keys that Envoy Gateway accepts."""
    for policy in stack.of(SECURITY_POLICY):
        with stack.unreadable:
            here = policy.namespace
            for reference in policy.at("spec", "apiKeyAuth", "credentialRefs").each():
                yield reference.at("namespace").text() or here, reference.at("name").text()


def _secret_names(pod: PodTemplate) -> Iterator[Field]:
    """The fields of a pod that name Secrets: in volumes, projected volumes and variables. Raises FieldError."""
    for volume in pod.at("volumes").each():
        yield volume.at("secret", "secretName")
        yield from volume.select("projected", "sources", "*", "secret", "name")
    for container in pod.containers:
        yield from container.select("env", "*", "valueFrom", "secretKeyRef", "name")
        yield from container.select("envFrom", "*", "secretRef", "name")
