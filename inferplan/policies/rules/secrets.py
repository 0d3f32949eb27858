"""Places that must not hold or read secrets."""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator

from inferplan.kube.names import COMPONENT_LABEL, POOL_LABEL
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack, Subject
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.rules.routes import SECURITY_POLICY, injected_keys
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from inferplan.policies.subjects.secret_texts import (
    BEARER,
    COMMANDS,
    HARMLESS,
    PRINTED,
    SHAPES,
    TOKENIZER,
    VARIABLES,
    is_random,
    reveals,
)
from inferplan.policies.subjects.serving import server_keys

SECRET_OPTIONS = re.compile(r"(?i)^--?([a-z]+[-_])*(api[-_]?key|token|password|secret)$")
# Options of curl and wget, and a user with a literal password.
USER_OPTIONS = ("-u", "--user", "--proxy-user", "-U")
USER_PASSWORD = re.compile(r"[^:\s/$]+:(?=[^$]*[A-Za-z])[^\s$/]{6,}")
# The value of Triton's options is <API>:<header>=<key>.
TRITON_KEY = re.compile(
    r"--(http-restricted-api|grpc-restricted-protocol)[= ][^:]+:[^=]+=(?!(?:Bearer |Basic )?\$)\S+"
)
CONFIG_MAP = "kubernetes:core:ConfigMap"
PARAMETER, EXTERNAL_SECRET = "aws:ssm:Parameter", "kubernetes:external-secrets.io:ExternalSecret"
# Kinds that hold secrets, and the password of a database, which aws-restrict-settings checks.
SECRET_KINDS = ("kubernetes:core:Secret", "aws:secretsmanager:", "aws:rds:")
# The maps with values of a program, in an ExternalSecret and in a function.
VALUES = (("data",), ("variables",))
CODE = (".py", ".sh", ".js", ".lua", ".go")
# Parts of texts in the parameter store that are public: ids and ARNs of AWS, numbers, paths, hosts
# and words.
PUBLIC = re.compile(
    r"[a-z]+-[0-9a-f]{8,17}|arn:aws[\w-]*:[^@]+|[0-9.:/]+|(https?://)?[a-z0-9.:/-]*[a-z][a-z0-9.:/_@-]*|[A-Z]?[a-z]+|"
)
OPAQUE_WORDS = re.compile(r"[,\s\"'{}\[\]]+")
SECRET_ENTRIES = re.compile(r"(?i)^(.*[-_.])?(api[-_]?key|token|password|secret[-_]?key)$")
USER_DATA = ("aws:ec2:LaunchTemplate", "aws:ec2:Instance", "aws:ec2:LaunchConfiguration")
USER_DATA_KEYS = ("userData", "userDataBase64")
# Common names of Secrets with the keys of consumers, in case no policy of the stack refers to them.
CONSUMER_KEYS = re.compile(
    r"(^|-)((gateway|consumer|client|api)-keys?|gateway-keys-[0-9a-f]{10})\Z"
)


@resource_rule(CONTAINERS)
def pod_disallow_literal_secrets(container: Container, _: Parameters) -> Violations:
    yield from _in_environment(container)
    yield from _in_command(container)
    yield from violations(
        container.hooks,
        lambda text: BEARER.search(text.text()) or reveals(text.text(), code=True),
        "contains a key in a hook or a probe",
    )
    references = (
        *container.select("env", "*", "valueFrom", "secretKeyRef"),
        *container.select("envFrom", "*", "secretRef"),
    )
    if not all(each.absent for each in references):
        yield from (
            violation(field, "writes keys of the environment to the log")
            for field, text in container.commands
            if PRINTED.search(text)
        )


def _in_environment(container: Container) -> Violations:
    for entry in container.at("env").each():
        literal, name = entry.at("value"), entry.at("name").text()
        if VARIABLES.search(name) and not (
            HARMLESS.fullmatch(literal.text()) and entry.at("valueFrom", "configMapKeyRef").absent
        ):
            yield violation(
                literal, "is a literal value of a variable whose name suggests a secret"
            )
        elif is_random(literal.text()) or reveals(literal.text(), code=True):
            yield violation(literal, "looks like a key")


def _in_command(container: Container) -> Violations:
    problem = "contains a key on the command line"
    yield from violations(
        container.texts,
        lambda field: TRITON_KEY.search(field.text()) or reveals(field.text(), code=True),
        problem,
    )
    if COMMANDS.search(" ".join(container.words)):
        yield violation(container.field, problem)
    for word, option, secret in container.options:
        if (SECRET_OPTIONS.match(option) and not HARMLESS.fullmatch(secret)) or (
            option in USER_OPTIONS and USER_PASSWORD.fullmatch(secret)
        ):
            yield violation(word.field, problem)


def _may_show_secrets(resource: Resource) -> bool:
    return resource.kind.startswith(("kubernetes:", "aws:")) and not resource.kind.startswith(
        SECRET_KINDS
    )


TEXTS = Subject(
    "texts",
    frozenset([CONFIG_MAP, PARAMETER, *USER_DATA]),
    lambda resource: (resource,),
    also=_may_show_secrets,
)


@resource_rule(TEXTS)
def secret_disallow_in_config_map(config: Resource, _: Parameters) -> Violations:
    yield from _in_metadata(config.at("metadata")) if config.kind.startswith("kubernetes:") else ()
    for pod in config.parts(PODS) if config.kind in PODS.kinds else ():
        yield from _in_metadata(pod.metadata)
    if config.kind in USER_DATA:
        texts = (field for field, text in user_data(config) if reveals(text, code=True))
        yield from (violation(field, "contains something that looks like a key") for field in texts)
    elif config.kind == CONFIG_MAP:
        yield from _in_files(config)
    elif config.kind == PARAMETER:
        value, name = config.at("value"), config.at("name").text().rpartition("/")[2]
        public = (
            not SECRET_ENTRIES.match(name)
            and not reveals(value.text())
            and all(map(PUBLIC.fullmatch, OPAQUE_WORDS.split(value.text())))
        )
        if config.at("type").text() != "SecureString" and not public:
            yield violation(value, "is in plain text and may be a secret")
    elif config.kind not in PODS.kinds:
        yield from _in_texts(config)


def _in_texts(config: Resource) -> Violations:
    """The texts of a resource of any kind that look like keys."""
    named = config.kind == EXTERNAL_SECRET or config.kind.startswith("aws:lambda:")
    keys, texts = config.outline
    if not (named or SHAPES.may_match("\n".join(texts)) or not keys.isdisjoint(USER_DATA_KEYS)):
        return
    for key, field in config.root.entries_below():
        text = field.raw if isinstance(field.raw, str) and "{{" not in field.raw else ""
        if SHAPES.search(text) or (key in USER_DATA_KEYS and reveals(text)):
            yield violation(field, "contains something that looks like a key")
        elif named and field.above.keys[-1:] in VALUES and _is_named_secret(str(key), text):
            yield violation(field, "has the name of a secret")


def _in_metadata(metadata: Field) -> Violations:
    for part in ("annotations", "labels"):
        for name, field in metadata.at(part).entries():
            word = name.rpartition("/")[2]
            if SHAPES.search(field.text()) or (
                part == "annotations" and _is_named_secret(word, field.text())
            ):
                yield violation(field, "contains something that looks like a key")


def _is_named_secret(name: str, text: str) -> bool:
    return bool(
        SECRET_ENTRIES.match(name)
        and not TOKENIZER.match(name)
        and text
        and not HARMLESS.fullmatch(text)
    )


def _in_files(config: Resource) -> Violations:
    for name, field in config.at("data").entries():
        if SECRET_ENTRIES.match(name) and not TOKENIZER.match(name) and field.text():
            yield violation(field, "has the name of a secret")
        elif reveals(field.text(), code=name.endswith(CODE)):
            yield violation(field, "contains something that looks like a key")
    for _name, field in config.at("binaryData").entries():
        with contextlib.suppress(binascii.Error):
            if reveals(base64.b64decode(field.text(), validate=True).decode(errors="replace")):
                yield violation(field, "contains something that looks like a key")


def user_data(instance: Resource) -> Iterator[tuple[Field, str]]:
    """The user data of an instance or a launch template with their text. Raises FieldError."""
    # Nodes of a pool with a custom image get the cluster's address and certificate, which a plan
    # does not know.
    is_pool = any(
        not each.at("tags", POOL_LABEL).absent for each in instance.at("tagSpecifications").each()
    )
    for name in USER_DATA_KEYS:
        field = instance.at(name)
        if field.unknown and is_pool:
            continue
        text = field.text()
        # An instance accepts plain text too.
        with contextlib.suppress(binascii.Error):
            text += base64.b64decode(text, validate=True).decode(errors="replace")
        yield field, text


@stack_rule
def stack_restrict_gateway_keys(stack: Stack, _: Parameters) -> Violations:
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

    yield from _keys_of_other_servers(stack, pods)
    yield from injected_keys(stack, pods)


def _keys_of_other_servers(stack: Stack, pods: list[PodTemplate]) -> Violations:
    """Variables of a server with a Secret that another server uses, or that has the name of another
    workload.
    """
    readers: dict[tuple[str, str], dict[str, tuple[str, Field]]] = {}
    for pod in pods:
        with stack.unreadable:
            for name in server_keys(pod):
                readers.setdefault((pod.resource.namespace, name.text()), {})[pod.resource.urn] = (
                    pod.resource.object_name,
                    name,
                )
    servers = {
        (namespace, server)
        for (namespace, _), listed in readers.items()
        for server, _ in listed.values()
    }
    for (namespace, secret), listed in readers.items():
        starts = (secret[: each.start()] for each in re.finditer("-", secret))
        owners = [server for server in starts if (namespace, server) in servers]
        owner = max(owners, key=len, default="")
        for server, field in listed.values():
            if (
                server != owner
                and (owner or len(listed) > 1)
                and not server.startswith(f"{owner or server}-")
            ):
                yield violation(field, "contains the key of another server")


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
    """The fields of a pod that name Secrets: in volumes, projected volumes and variables. Raises
    FieldError.
    """
    for volume in pod.at("volumes").each():
        yield volume.at("secret", "secretName")
        yield from volume.select("projected", "sources", "*", "secret", "name")
    for container in pod.containers:
        yield from container.select("env", "*", "valueFrom", "secretKeyRef", "name")
        yield from container.select("envFrom", "*", "secretRef", "name")
