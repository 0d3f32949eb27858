"""Pods stay where they belong and see the cluster as everybody does."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
OF_THE_SYSTEM = ("system-node-critical", "system-cluster-critical")


# What stands at a place of the pod and what it does; the third says which values do it.
PLACES = (
    (("nodeName",), "goes past the scheduler and every taint", bool),
    (("hostAliases",), "sends names of others to addresses of its own", bool),
    (("dnsConfig", "nameservers"), "asks name servers that are not the cluster's", bool),
    (("dnsPolicy",), "asks name servers that are not the cluster's", lambda value: value == "None"),
    (("shareProcessNamespace",), "shows each container the memory and environment of the others", bool),
)


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    yield from (found(pod.at(*keys), problem) for keys, problem, does in PLACES if does(pod.at(*keys).value))
    for toleration in pod.at("tolerations").each():
        key = toleration.at("key")
        if toleration.at("operator").text() == "Exists" and not key.text():
            yield found(toleration, "tolerates every taint, those of the control plane among them")
        elif key.text() in CONTROL_PLANE:
            yield found(key, "lets the pod run on the control plane")
    for mount in (each for container in pod.containers for each in container.at("volumeMounts").each()):
        if mount.at("mountPropagation").text() == "Bidirectional":
            yield found(mount.at("mountPropagation"), "puts mounts of the container onto the node")
    if not _is_agent(pod):
        if pod.at("priorityClassName").text() in OF_THE_SYSTEM:
            yield found(pod.at("priorityClassName"), "evicts whatever else runs on the node")
        namespace = pod.resource.at("metadata", "namespace")
        if namespace.text() in given["namespaces"]:
            yield found(namespace, "is a namespace that is not for workloads")


def _is_agent(pod: PodTemplate) -> bool:
    """Whether the pod is one of each node, such as a device plugin."""
    return pod.resource.short_kind == "DaemonSet"


RULE = Rule(
    id="pod-restrict-reach",
    title="Pods stay on their pool and ask the cluster's name servers",
    severity=Severity.HIGH,
    refs=(
        "Kyverno restrict-controlplane-scheduling",
        "Kyverno restrict-node-selection",
        "CIS EKS 4.5.2",
        "CIS Kubernetes 5.7",
    ),
    why="A pod on the control plane is beside its keys; one with its own name servers takes model hubs from wherever those say",
    remedy="tolerate the taints of the pool by key, leave nodeName, hostAliases and dnsConfig.nameservers out, and use a namespace of your own",
    subject=PODS,
    check=_check,
    parameters={
        "namespaces": Parameter(
            default=["default", "kube-system", "kube-public", "kube-node-lease"],
            description="Namespaces that are not for workloads",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
