"""Connections of pods to hosts outside the stack, and the verification of certificates."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from inferplan.policies.engine.fields import Field, matching
from inferplan.policies.engine.resource import Resource, Stack, Subject
from inferplan.policies.engine.rule import Parameters, Severity, Violations, parameter, resource_rule, stack_rule, violation
from inferplan.policies.rules.pods import CONTROLLERS
from inferplan.policies.subjects.networks import NETWORK_POLICY, blocks_of, cover_internet
from inferplan.policies.subjects.placement import matches_labels
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from inferplan.policies.subjects.programs import Word, image_of
from inferplan.policies.subjects.serving import model_of
from inferplan.policies.subjects.tables import document, entries_below
from inferplan.policies.subjects.workloads import labels_of

CONFIG_MAP, SECRET = "kubernetes:core:ConfigMap", "kubernetes:core:Secret"
_NAMED = re.compile(r"([A-Za-z_][\w.-]*)[\"']?\s*[:=]\s*[\"']?([a-z][a-z0-9+.-]*://[^\s\"',}\]]+)")
_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/@\s]*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+)(?::[0-9]+)?(?:[/?,#]|\Z)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")
_INSIDE = (".svc", ".local", ".internal", ".localdomain", ".lan", ".test", ".home.arpa")
_DOWNLOADS = re.compile(r"\b(s3|gs|az|hf|https)://")
_HTTPS = "443"
_PUBLIC_REGISTRIES = ("docker.io", "ghcr.io", "quay.io", "nvcr.io", "gcr.io", "registry.k8s.io", "public.ecr.aws", "amazonaws.com")


@parameter("hosts", [], "Hosts and domains outside the cluster that pods may send data to or load data from, for example `acme.example`")
@stack_rule(Severity.HIGH, "inference; OWASP K8s: supply chain; CKV2_DOCKER")
def stack_restrict_outside_hosts(stack: Stack, parameters: Parameters) -> Violations:
    """Telemetry, hubs, indexes and proxies are hosts that the stack trusts.
    Why: Another hub or index serves other weights and other code. A collector or a proxy of strangers gets prompts and keys.
    Remedy: use a Service of the cluster, a host of your own domain, or the service's official host; or list the host under
    parameters.stack-restrict-outside-hosts.hosts.
    """
    trusted = {*document("connections")["trusted"], *parameters["hosts"], *_own_domains(stack)}
    for resource in stack:
        with stack.unreadable:
            for field, value in _hosts_in(resource):
                if _is_outside(value, trusted):
                    yield violation(field, "names a host outside the stack")


def _hosts_in(resource: Resource) -> Iterator[tuple[Field, str]]:
    """The values of a resource that name a host, each with its field. Raises FieldError."""
    names = document("connections")
    if resource.kind == CONFIG_MAP:
        for _name, field in resource.at("data").entries():
            yield from ((field, value) for key, value in _NAMED.findall(field.text()) if re.match(names["hostKeys"], key))
    if resource.kind not in PODS.kinds:
        return
    for container in resource.parts(CONTAINERS):
        for name, entry in container.environment().items():
            if re.search(names["hostVariables"], name):
                yield entry.at("value"), entry.at("value").text()
        for word, following in pairwise((*container.arguments, Word(container.field, ""))):
            option, equals, value = word.text.partition("=")
            value = value if equals else following.text
            if re.match(names["hostOptions"], option) and _URL.search(value):
                yield word.field, value[_start_of_url(value) :]
    config = resource.at("spec", "serveConfigV2") if resource.kind.endswith(":RayService") else Field(None)
    yield from ((config, value) for key, value in _NAMED.findall(config.text()) if re.search(names["hostVariables"], key))


def _start_of_url(text: str) -> int:
    match = _URL.search(text)
    return match.start() if match else 0


def _is_outside(value: str, trusted: Iterable[str]) -> bool:
    """True if `value` begins with a public host that is not below a trusted domain."""
    host = _HOST.match(value)
    name = host.group(1).strip("[]").rstrip(".").lower() if host else ""
    try:
        return not (ipaddress.ip_address(name).is_private or ipaddress.ip_address(name).is_loopback)
    except ValueError:
        pass
    if "." not in name or name.endswith(_INSIDE):
        return False
    return not any(name == each or name.endswith(f".{each}") for each in trusted)


def _own_domains(stack: Stack) -> set[str]:
    """The domains of the stack's entry points and of its private registries: the last two parts of their hosts."""
    hosts: set[str] = set()
    for resource in stack:
        with stack.unreadable:
            if resource.kind.startswith("kubernetes:networking.k8s.io:Ingress"):
                hosts |= {each.text() for each in resource.select("spec", "rules", "*", "host")}
            elif resource.kind.endswith("Route"):
                hosts |= set(resource.at("spec", "hostnames").texts())
            elif resource.kind in PODS.kinds:
                for container in resource.parts(CONTAINERS):
                    hosts.add(image_of(container.at("image")).name.partition("/")[0].partition(":")[0])
    return {".".join(host.split(".")[-2:]) for host in hosts if "." in host and not host.endswith(_PUBLIC_REGISTRIES)}


@parameter("controllers", CONTROLLERS, "Images, without tags, of controllers that call the APIs of a cloud")
@stack_rule(Severity.HIGH, "NSA-CISA: network separation; CKV_AWS_382; inference")
def stack_restrict_internet_egress(stack: Stack, parameters: Parameters) -> Violations:
    """Only downloads of weights reach the whole internet, and only over HTTPS.
    Why: A server that anyone takes over could send weights, prompts and keys anywhere.
    Remedy: list the networks of the store under ipBlock.cidr (in a stack file: storage.<name>.networks).
    """
    for policy in stack.of(NETWORK_POLICY):
        with stack.unreadable:
            open_rules = [rule for rule in policy.select("spec", "egress", "*") if blocks_of(rule.at("to").each())]
            if not cover_internet(block for rule in open_rules for block in blocks_of(rule.at("to").each())):
                continue
            wide = [rule for rule in open_rules if cover_internet(blocks_of(rule.at("to").each()))] or open_rules
            downloads = all(map(_is_https_only, wide)) and _selects_downloads(stack, policy, parameters["controllers"])
            if not downloads:
                yield from (violation(rule.at("to"), "lets pods reach the whole internet") for rule in wide)


def _is_https_only(rule: Field) -> bool:
    ports = list(rule.at("ports").each())
    return bool(ports) and all(each.at("port").text() == _HTTPS and each.at("endPort").absent for each in ports)


def _selects_downloads(stack: Stack, policy: Resource, controllers: list[str]) -> bool:
    """True if a policy selects pods, and each of them downloads weights or calls a cloud. Raises FieldError."""
    pods = [pod for each in stack.of(*sorted(PODS.kinds)) if each.namespace == policy.namespace for pod in each.parts(PODS)]
    selected = list(matching(pods, lambda pod: matches_labels(policy.at("spec", "podSelector"), labels_of(pod))))
    return bool(selected) and all(_downloads(pod, controllers) for pod in selected)


def _downloads(pod: PodTemplate, controllers: list[str]) -> bool:
    if pod.runs_to_end:
        return True
    images = (image_of(container.at("image")).name for container in pod.containers)
    if any(name in controllers for name in images):
        return True
    for container in pod.containers:
        model = model_of(container)
        if any(map(_DOWNLOADS.search, container.words)) or (model and not model.startswith(("/", "."))):
            return True
    return bool(pod.stores)


@resource_rule(CONTAINERS, Severity.HIGH, "CKV2_DOCKER_1-9; NSA-CISA: encryption in transit")
def pod_require_verified_tls(container: Container, _: Parameters) -> Violations:
    """Programs verify the certificates of servers.
    Why: Without verification, anyone on the network can answer in the place of a store, a hub or a collector, and read every key sent to it.
    Remedy: remove the variable or option; for a private authority, mount its certificate and name it in REQUESTS_CA_BUNDLE or SSL_CERT_FILE.
    """
    table = document("connections")
    for name, value in table["variables"].items():
        for entry in container.variables(name):
            if entry.at("valueFrom").absent and re.fullmatch(value, entry.at("value").text()):
                yield violation(entry.at("value"), "switches the verification of certificates off")
    for word, following in pairwise((*container.arguments, Word(container.field, ""))):
        option, equals, value = word.text.partition("=")
        value = value if equals else "" if following.text.startswith("-") else following.text
        for pattern, harmless in table["options"].items():
            if re.fullmatch(pattern, option) and not re.fullmatch(harmless, value):
                yield violation(word.field, "switches the verification of certificates off")
    texts = (*container.at("command").each(), *container.at("args").each(), *container.at("lifecycle").texts_below())
    yield from (violation(field, "switches the verification of certificates off") for field in texts if _is_unverified(field.text()))
    if _is_unverified(" ".join(container.words)) and not any(_is_unverified(each.text()) for each in texts):
        yield violation(container.at("command"), "switches the verification of certificates off")


def _is_unverified(text: str) -> bool:
    return any(re.search(pattern, text) for pattern in document("connections")["texts"].values())


_ANY_OBJECT = Subject(
    "any object",
    frozenset([CONFIG_MAP]),
    lambda resource: (resource,),
    also=lambda resource: resource.kind.startswith("kubernetes:") and resource.kind != SECRET and resource.kind not in PODS.kinds,
)


@resource_rule(_ANY_OBJECT, Severity.HIGH, "CKV2_DOCKER; CKV_K8S_68; NSA-CISA: encryption in transit")
def object_require_verified_tls(object_: Resource, _: Parameters) -> Violations:
    """Objects and configuration files keep TLS verified and current.
    Why: Without verification, or with TLS 1.0, anyone on the network can read and change what is sent.
    Remedy: remove the setting; name the authority's certificate instead (caBundle, ca, proxy_ssl_trusted_certificate).
    """
    if object_.kind == CONFIG_MAP:
        files = (field for _name, field in object_.at("data").entries())
        yield from (
            violation(field, "disables the verification of certificates, or allows old TLS")
            for field in files
            if _is_unverified(field.text())
        )
    for key, field in entries_below(object_.root):
        if key in document("connections")["fields"]["names"] and not field.unknown and field.value in (True, "true"):
            yield violation(field, "disables the verification of certificates")
