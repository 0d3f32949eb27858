"""Pods and Jobs: resources, tokens, placement and labels."""

import re
from collections.abc import Callable, Iterator

from inferplan.kube.names import MANAGED_BY_LABEL
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Edit,
    Parameters,
    Violations,
    must_be,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.hosts import redirects
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate, pod_subject
from inferplan.policies.subjects.workloads import WORKLOADS, least_replicas

LABELLED = objects(
    *(
        "kubernetes:core:Namespace",
        "kubernetes:core:Service",
        "kubernetes:core:ConfigMap",
        "kubernetes:core:Secret",
    ),
    *(
        "kubernetes:apps:Deployment",
        "kubernetes:apps:StatefulSet",
        "kubernetes:batch:Job",
        "kubernetes:policy:PodDisruptionBudget",
    ),
    *("kubernetes:networking.k8s.io:NetworkPolicy", "kubernetes:networking.k8s.io:Ingress"),
)
ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
ACCOUNT = "kubernetes:core:ServiceAccount"
# Audiences of the API server. A token with another audience, for example AWS, is useless in the
# cluster.
API_AUDIENCES = (
    "",
    "api",
    "kubernetes",
    "https://kubernetes.default.svc",
    "https://kubernetes.default.svc.cluster.local",
)
TOKEN_SECRET = re.compile(r"-token-[a-z0-9]{5}\Z")
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_NODE_TERMS = (
    ("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "*"),
    ("preferredDuringSchedulingIgnoredDuringExecution", "*", "preference"),
)
SYSTEM_PRIORITIES = ("system-node-critical", "system-cluster-critical")
# A path in the pod, the problem, and when a value causes it.
SETTINGS = (
    (("nodeName",), "bypasses the scheduler and every taint", bool),
    (("dnsConfig", "nameservers"), "uses name servers other than the cluster's", bool),
    (("dnsPolicy",), "uses name servers other than the cluster's", lambda value: value == "None"),
    (("shareProcessNamespace",), "lets containers read each other's memory and environment", bool),
)


def _set_managed_by(object_: Resource) -> Iterator[Edit]:
    if object_.at("metadata", "labels", MANAGED_BY_LABEL).absent:
        yield Edit(("metadata", "labels", MANAGED_BY_LABEL), value="pulumi")


@resource_rule(LABELLED, remediate=_set_managed_by)
def object_require_managed_by(object_: Resource, _: Parameters) -> Violations:
    yield from violations(
        object_.at("metadata", "labels", MANAGED_BY_LABEL),
        lambda field: not field.text(),
        "is not set",
    )


def _set_false(key: str) -> Callable[[PodTemplate | Resource], list[Edit]]:
    return lambda part: [Edit(part.at(key).keys, value=False)]


@resource_rule(PODS, remediate=_set_false("enableServiceLinks"))
def pod_disallow_service_links(pod: PodTemplate, _: Parameters) -> Violations:
    if not pod.partial:
        yield from must_be(pod.at("enableServiceLinks"), value=False)


# Seconds; tokens for AWS last as long.
_LONGEST_TOKEN = 86400


TOKENS = pod_subject(
    "tokens",
    lambda resource: [resource] if resource.kind == ACCOUNT else resource.parts(PODS),
    ACCOUNT,
)


@resource_rule(TOKENS, remediate=_set_false("automountServiceAccountToken"))
def pod_disallow_token_mount(part: PodTemplate | Resource, parameters: Parameters) -> Violations:
    if isinstance(part, Resource) or not part.partial:
        yield from must_be(part.at("automountServiceAccountToken"), value=False)
    if isinstance(part, Resource):
        if part.object_name == "default":
            role = part.at("metadata", "annotations", ROLE_ANNOTATION)
            yield from violations(
                role, Field.text, "gives an AWS role to every pod without its own service account"
            )
        return
    for volume in part.at("volumes").each():
        for token in volume.select("projected", "sources", "*", "serviceAccountToken"):
            images = {container.image.name for container in part.containers}
            if images and images <= set(parameters["controllers"]):
                continue
            if not token.absent and token.at("audience").text().rstrip("/") in API_AUDIENCES:
                yield violation(token, "mounts a token for the Kubernetes API")
            elif (token.at("expirationSeconds").number() or 0) > _LONGEST_TOKEN:
                yield violation(
                    token.at("expirationSeconds"), "makes a token valid for more than a day"
                )
        if TOKEN_SECRET.search(volume.at("secret", "secretName").text()):
            yield violation(volume.at("secret"), "mounts a token for the Kubernetes API")


@resource_rule(CONTAINERS)
def pod_require_cpu_request(container: Container, _: Parameters) -> Violations:
    request, limit = (container.at("resources", side, "cpu") for side in ("requests", "limits"))
    if container.ephemeral or container.pod.at("resources", "requests", "cpu").quantity():
        return
    # The default of the request is the limit.
    if not (limit if request.absent else request).quantity():
        yield violation(request, "is not set")


@resource_rule(CONTAINERS)
def pod_require_memory_limit(container: Container, _: Parameters) -> Violations:
    limit, request = (container.at("resources", side, "memory") for side in ("limits", "requests"))
    if container.ephemeral or container.pod.at("resources", "limits", "memory").quantity():
        return
    if not limit.quantity():
        yield violation(limit, "is not set")
    elif not request.absent and not request.quantity():
        yield violation(request, "is zero")


@stack_rule
def pod_require_spread(stack: Stack, _: Parameters) -> Violations:
    for workload in stack.of(*WORKLOADS):
        with stack.unreadable:
            for pod in workload.parts(PODS):
                spread = (
                    pod.at("topologySpreadConstraints").has_items
                    or pod.at("affinity", "podAntiAffinity").value
                )
                if not spread and least_replicas(stack, workload) >= 2:
                    yield violation(
                        pod.at("topologySpreadConstraints"),
                        "is not set, but there are several replicas",
                    )


def _selectors(pod: PodTemplate) -> Iterator[Field]:
    """The parts of a pod that select nodes of the control plane."""
    for key in CONTROL_PLANE:
        if not pod.at("nodeSelector", key).absent:
            yield pod.at("nodeSelector", key)
    affinity = pod.at("affinity", "nodeAffinity")
    for path in _NODE_TERMS:
        for expression in affinity.select(*path, "matchExpressions", "*"):
            wants = expression.at("operator").text() in ("Exists", "In")
            if wants and expression.at("key").text() in CONTROL_PLANE:
                yield expression


@resource_rule(PODS)
def pod_restrict_reach(pod: PodTemplate, parameters: Parameters) -> Violations:
    yield from (
        violation(pod.at(*keys), problem)
        for keys, problem, is_wrong in SETTINGS
        if is_wrong(pod.at(*keys).value)
    )
    if any(map(redirects, pod.at("hostAliases").each())):
        yield violation(pod.at("hostAliases"), "maps host names to other addresses")
    for toleration in pod.at("tolerations").each():
        key = toleration.at("key")
        if toleration.at("operator").text() == "Exists" and not key.text():
            yield violation(
                toleration, "tolerates every taint, including those of the control plane"
            )
        elif key.text() in CONTROL_PLANE:
            yield violation(key, "lets the pod run on the control plane")
    for selector in _selectors(pod):
        yield violation(selector, "sends the pod to the control plane")
    mounts = (
        each
        for container in pod.containers
        for each in container.select("volumeMounts", "*", "mountPropagation")
    )
    yield from violations(
        mounts,
        lambda field: field.text() == "Bidirectional",
        "propagates mounts of the container to the node",
    )
    # A DaemonSet, for example a device plugin, belongs to the node.
    if pod.resource.short_kind != "DaemonSet":
        if pod.at("priorityClassName").text() in SYSTEM_PRIORITIES:
            yield violation(pod.at("priorityClassName"), "can evict every other pod on the node")
        namespace = pod.resource.at("metadata", "namespace")
        if namespace.text() in parameters["namespaces"]:
            yield violation(namespace, "is a namespace that is not for workloads")
