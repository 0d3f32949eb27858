"""Connections of pods to hosts outside the stack, and the verification of certificates."""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack, Subject
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
)
from inferplan.policies.rules.fetched import fetched_code
from inferplan.policies.subjects.hosts import TABLE, is_outside, own_domains
from inferplan.policies.subjects.networks import NETWORK_POLICY, blocks_of, cover_internet
from inferplan.policies.subjects.packages import runs
from inferplan.policies.subjects.pods import (
    CONTAINERS,
    PODS,
    Container,
    PodTemplate,
    pod_subject,
)
from inferplan.policies.subjects.serving import model_of
from inferplan.policies.subjects.workloads import selected
from inferplan.tables import table

_PROVIDER = "pulumi:providers:kubernetes"

_VOLUME = "kubernetes:core:PersistentVolume"
CONFIG_MAP, SECRET = "kubernetes:core:ConfigMap", "kubernetes:core:Secret"
# The look-behind keeps the search linear: without it, every letter of a long word starts another
# attempt.
_NAMED = re.compile(
    r"(?<![\w.-])[0-9.-]*([A-Za-z_][\w.-]*)[\"']?\s*[:=]\s*[\"']?([a-z][a-z0-9+.-]*://[^\s\"',}\]]+)"
)
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")
_DOWNLOADS = re.compile(r"\b(s3|gs|az|hf|https)://")
_HTTPS = "443"
_NAME_PORTS = ("53", "dns", "dns-tcp", "5353")


@stack_rule
def stack_restrict_outside_hosts(stack: Stack, parameters: Parameters) -> Violations:
    trusted = {
        *table(TABLE)["trusted"],
        *parameters["hosts"],
        *own_domains(stack),
    }
    for resource in stack:
        with stack.unreadable:
            for field, value in _hosts_in(resource):
                if is_outside(value, trusted):
                    yield violation(field, "names a host outside the stack")


def _hosts_in(resource: Resource) -> Iterator[tuple[Field, str]]:
    """The values of a resource that name a host, each with its field. Raises FieldError."""
    names = table(TABLE)
    if resource.kind == CONFIG_MAP:
        for _name, field in resource.at("data").entries():
            yield from (
                (field, value)
                for key, value in _named_urls(field.text())
                if re.match(names["hostKeys"], key)
            )
    yield from _file_servers(resource)
    if resource.kind not in PODS.kinds:
        if re.match(names["objects"], resource.kind):
            yield from (
                (field, field.text())
                for key, field in resource.root.entries_below()
                if re.match(names["objectKeys"], str(key)) and "://" in field.text()
            )
        return
    for container in resource.parts(CONTAINERS):
        for name, entry in container.environment.items():
            if re.search(names["hostVariables"], name):
                yield entry.at("value"), entry.at("value").text()
        for word, option, value in container.options:
            if re.match(names["hostOptions"], option) and (url := _URL.search(value)):
                yield word.field, value[url.start() :]
    config = (
        resource.at("spec", "serveConfigV2")
        if resource.kind.endswith(":RayService")
        else Field(None)
    )
    yield from (
        (config, value)
        for key, value in _named_urls(config.text())
        if re.search(names["hostVariables"], key)
    )


def _file_servers(resource: Resource) -> Iterator[tuple[Field, str]]:
    """The NFS servers that an address names. A name may be one of the company's own."""
    servers = [resource.at("spec", "nfs", "server")] if resource.kind == _VOLUME else []
    for pod in resource.parts(PODS) if resource.kind in PODS.kinds else ():
        servers += pod.select("volumes", "*", "nfs", "server")
    for each in servers:
        if _ADDRESS.fullmatch(text := each.text()):
            yield each, f"[{text}]" if ":" in text else text


def _named_urls(text: str) -> list[tuple[str, str]]:
    """Each URL in `text` that has a name in front, as `name: url` or `name=url`."""
    return _NAMED.findall(text) if "://" in text else []


@stack_rule
def stack_restrict_internet_egress(stack: Stack, parameters: Parameters) -> Violations:
    # Thousands of policies of one namespace may select the same pods.
    verdicts: dict[tuple[str, str], bool] = {}
    for policy in stack.of(NETWORK_POLICY):
        with stack.unreadable:
            rules = list(policy.select("spec", "egress", "*"))
            # The addresses of name servers are often not known.
            peerless = [
                rule
                for rule in rules
                if not rule.at("to").has_items and not _opens_only(rule, _NAME_PORTS)
            ]
            open_rules = [rule for rule in rules if blocks_of(rule.at("to").each())]
            wide = [
                rule for rule in open_rules if cover_internet(blocks_of(rule.at("to").each()))
            ] + peerless
            if not wide and cover_internet(
                block for rule in open_rules for block in blocks_of(rule.at("to").each())
            ):
                wide = open_rules
            if wide and all(_opens_only(rule, (_HTTPS,)) for rule in wide):
                place = policy.namespace, repr(policy.at("spec", "podSelector").value)
                if place not in verdicts:
                    verdicts[place] = _selects_downloads(stack, policy, parameters["controllers"])
                if verdicts[place]:
                    continue
            yield from (
                violation(rule.at("to"), "lets pods reach the whole internet") for rule in wide
            )


def _opens_only(rule: Field, allowed: Collection[str]) -> bool:
    ports = list(rule.at("ports").each())
    return bool(ports) and all(
        each.at("port").text() in allowed and each.at("endPort").absent for each in ports
    )


def _selects_downloads(stack: Stack, policy: Resource, controllers: list[str]) -> bool:
    """True if a policy selects pods, and each of them downloads weights or calls a cloud. Raises
    FieldError.
    """
    pods = list(
        selected(stack, sorted(PODS.kinds), policy.at("spec", "podSelector"), policy.namespace)
    )
    return bool(pods) and all(_downloads(pod, controllers) for pod in pods)


def _downloads(pod: PodTemplate, controllers: list[str]) -> bool:
    if pod.runs_to_end:
        return True
    images = (container.image.name for container in pod.containers)
    if any(name in controllers for name in images):
        return True
    for container in pod.containers:
        model = model_of(container)
        if any(map(_DOWNLOADS.search, container.words)) or (
            model and not model.startswith(("/", "."))
        ):
            return True
    return bool(pod.stores)


@resource_rule(CONTAINERS)
def pod_require_verified_tls(container: Container, _: Parameters) -> Violations:
    settings = table(TABLE)
    for name, value in settings["variables"].items():
        for entry in container.variables(name):
            if entry.at("valueFrom").absent and re.fullmatch(value, entry.at("value").text()):
                yield violation(entry.at("value"), "switches the verification of certificates off")
    for word, option, value in container.options:
        for pattern, harmless in settings["options"].items():
            if re.fullmatch(pattern, option) and not re.fullmatch(harmless, value):
                yield violation(word.field, "switches the verification of certificates off")
    values = container.select("env", "*", "value")
    texts = (
        *container.texts,
        *container.at("lifecycle").texts_below(),
        *values,
    )
    yield from (
        violation(field, "switches the verification of certificates off")
        for field in texts
        if _is_unverified(field.text())
    )
    if _is_unverified(" ".join(container.words)) and not any(
        _is_unverified(each.text()) for each in texts
    ):
        yield violation(container.at("command"), "switches the verification of certificates off")


@lru_cache(maxsize=1024)
def _is_unverified(text: str) -> bool:
    return any(re.search(pattern, text) for pattern in table(TABLE)["texts"].values())


_ANY_OBJECT = Subject(
    "any object",
    frozenset([CONFIG_MAP]),
    lambda resource: (resource,),
    also=lambda resource: (
        resource.kind.startswith(("kubernetes:", _PROVIDER))
        and resource.kind != SECRET
        and resource.kind not in PODS.kinds
    ),
)


@resource_rule(_ANY_OBJECT)
def object_require_verified_tls(object_: Resource, _: Parameters) -> Violations:
    kubeconfig = object_.at("kubeconfig") if object_.kind == _PROVIDER else Field(None)
    # An update makes the kubeconfig of a new cluster.
    if not kubeconfig.unknown and _is_unverified(kubeconfig.text()):
        yield violation(kubeconfig, "disables the verification of certificates")
    if object_.kind == CONFIG_MAP:
        files = (field for _name, field in object_.at("data").entries())
        yield from (
            violation(field, "disables the verification of certificates, or allows old TLS")
            for field in files
            if _is_unverified(field.text())
        )
    switches = {key: off for key in object_.outline.keys if (off := _off(key))}
    for field in object_.below(switches):
        value = str(field.raw).lower()
        if {"on": "true", "off": "false"}.get(value, value) in switches[str(field.key)]:
            yield violation(field, "disables the verification of certificates")


@lru_cache(maxsize=4096)
def _off(key: str) -> tuple[str, ...]:
    """The values, `true` or `false`, with which a field named `key` switches verification off."""
    # Annotations are named DOMAIN/proxy-ssl-verify.
    name = key.rpartition("/")[2].replace("-", "_")
    fields = table(TABLE)["fields"]
    return tuple(off for pattern, off in fields.items() if re.fullmatch(pattern, name))


_SCRIPT = re.compile(
    r"(?i)(.*\.(sh|bash|py|pl)|.*(entrypoint|start|run|init|setup|install)[\w-]*)\Z"
)
_COMMANDS = pod_subject(
    "commands",
    lambda resource: (resource,) if resource.kind == CONFIG_MAP else resource.parts(CONTAINERS),
    CONFIG_MAP,
)


@resource_rule(_COMMANDS)
def pod_disallow_piped_programs(part: Container | Resource, _: Parameters) -> Violations:
    if isinstance(part, Resource):
        scripts = (
            each
            for name, each in part.at("data").entries()
            if _SCRIPT.match(name) or each.text().startswith("#!")
        )
        yield from (
            violation(each, "runs a program that it downloads")
            for each in scripts
            if is_piped(each.text())
        )
    else:
        yield from _piped(part)


def _piped(container: Container) -> Violations:
    for field, text in container.commands:
        if is_piped(text):
            yield violation(field, "runs a program that it downloads")
    yield from fetched_code(container)


# Containers of a stack run the same scripts, and each of them is judged as a file, as a command and
# as what a container runs.
@lru_cache(maxsize=1024)
def is_piped(text: str) -> bool:
    """True if a shell or an interpreter runs what the command in `text` downloads."""
    rows = table(TABLE)
    checked = re.search(rows["fetched"]["pinned"], text) is not None
    return runs(text) or any(
        re.search(pattern, text)
        for name, pattern in rows["piped"].items()
        if not (checked and name in rows["pipedFiles"])
    )
