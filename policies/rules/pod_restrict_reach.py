"""Pods stay on their pool and use the cluster's name servers."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
OF_THE_SYSTEM = ("system-node-critical", "system-cluster-critical")


# A path in the pod, the problem, and the values that cause it.
PLACES = (
    (("nodeName",), "bypasses the scheduler and every taint", bool),
    (("hostAliases",), "maps host names to other addresses", bool),
    (("dnsConfig", "nameservers"), "uses name servers other than the cluster's", bool),
    (("dnsPolicy",), "uses name servers other than the cluster's", lambda value: value == "None"),
    (("shareProcessNamespace",), "lets containers read each other's memory and environment", bool),
)


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    yield from (found(pod.at(*keys), problem) for keys, problem, does in PLACES if does(pod.at(*keys).value))
    for toleration in pod.at("tolerations").each():
        key = toleration.at("key")
        if toleration.at("operator").text() == "Exists" and not key.text():
            yield found(toleration, "tolerates every taint, including those of the control plane")
        elif key.text() in CONTROL_PLANE:
            yield found(key, "lets the pod run on the control plane")
    for mount in (each for container in pod.containers for each in container.at("volumeMounts").each()):
        if mount.at("mountPropagation").text() == "Bidirectional":
            yield found(mount.at("mountPropagation"), "propagates mounts of the container to the node")
    if not _is_agent(pod):
        if pod.at("priorityClassName").text() in OF_THE_SYSTEM:
            yield found(pod.at("priorityClassName"), "can evict every other pod on the node")
        namespace = pod.resource.at("metadata", "namespace")
        if namespace.text() in given["namespaces"]:
            yield found(namespace, "is a namespace that is not for workloads")


def _is_agent(pod: PodTemplate) -> bool:
    """True if the pod is one of each node, such as a device plugin."""
    return pod.resource.short_kind == "DaemonSet"


RULE = Rule(
    id="pod-restrict-reach",
    title="Pods stay on their pool and use the cluster's name servers",
    severity=Severity.HIGH,
    refs=(
        "Kyverno restrict-controlplane-scheduling",
        "Kyverno restrict-node-selection",
        "CIS EKS 4.5.2",
        "CIS Kubernetes 5.7",
    ),
    why="A pod on a control plane node is close to the cluster's keys. A pod with its own name servers can be sent to a false model hub",
    remedy=(
        "tolerate the taints of the pool by key, omit nodeName, hostAliases and dnsConfig.nameservers, and use a namespace for workloads"
    ),
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
