"""Checks of cluster add-ons: the network plugin that enforces NetworkPolicies, the metrics server
and the Prometheus that scalers read.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from inferplan.commands.doctor.cluster import ExaminedCluster
from inferplan.commands.doctor.findings import Finding, error, ok, unknown, warning
from inferplan.workspace.live import ObjectKey

_TEST = "test it with the commands of inferplan docs doctor, NetworkPolicies"
# DaemonSets of network plugins that enforce NetworkPolicies (their documentation, read 2026-11).
_ENFORCING = {
    r"calico-node|canal": "Calico",
    r"cilium|anetd": "Cilium",
    r"antrea-agent": "Antrea",
    r"kube-router": "kube-router",
    r"weave-net": "Weave Net",
    r"ovnkube-node": "OVN-Kubernetes",
    r"azure-npm": "Azure NPM",
}
_NOT_ENFORCING = {r"kube-flannel(-ds.*)?": "Flannel"}
_AWS = "aws-node"


def check_network_policies(cluster: ExaminedCluster) -> Iterator[Finding]:
    policies = sum(1 for _ in cluster.of_kind("NetworkPolicy"))
    if not policies:
        yield ok("the stack has no NetworkPolicy")
        return
    sets = {name: each for (_, name), each in cluster.live.objects("apps/v1", "DaemonSet").items()}
    enforcing = _named(sets, _ENFORCING)
    if enforcing:
        yield ok(f"{enforcing} enforces the {policies} NetworkPolicies of the stack")
    elif _AWS in sets:
        containers = sets[_AWS]["spec"]["template"]["spec"]["containers"]
        if any("--enable-network-policy=true" in each.get("args", ()) for each in containers):
            yield ok(f"the Amazon VPC CNI enforces the {policies} NetworkPolicies of the stack")
        else:
            yield warning(
                f"the Amazon VPC CNI does not enforce the {policies} NetworkPolicies of the stack:"
                " enableNetworkPolicy is off",
                cluster.remedy("networkPolicies", "Amazon VPC CNI"),
            )
    elif plain := _named(sets, _NOT_ENFORCING):
        yield warning(
            f"{plain} does not enforce NetworkPolicies, so every pod of the cluster reaches the"
            f" {policies} guarded endpoints of the stack",
            cluster.remedy("networkPolicies", plain),
        )
    else:
        yield unknown(
            f"not provable from here: that the cluster enforces the {policies} NetworkPolicies; its"
            " network plugin is not known",
            _TEST,
        )


def _named(sets: dict[str, Any], plugins: dict[str, str]) -> str:
    return next(
        (
            title
            for pattern, title in plugins.items()
            for name in sets
            if re.fullmatch(pattern, name)
        ),
        "",
    )


_METRICS = "metrics.k8s.io/v1beta1"
_METRICS_SERVER = (
    "apply -f"
    " https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml"
)


def check_scaling(cluster: ExaminedCluster) -> Iterator[Finding]:
    scalers = [key.name for key, _ in cluster.of_kind("HorizontalPodAutoscaler")]
    if scalers and not cluster.live.serves(_METRICS, "PodMetrics"):
        message = (
            f"the HorizontalPodAutoscaler of {', '.join(scalers)} scales by CPU, but the cluster does"
            f" not serve {_METRICS}"
        )
        yield error(message, f"{cluster.kubectl} {_METRICS_SERVER}")
    elif scalers:
        yield ok(
            f"the cluster serves {_METRICS}, which {len(scalers)} HorizontalPodAutoscalers follow"
        )
    addresses = {
        str(trigger.get("metadata", {}).get("serverAddress", ""))
        for _, inputs in cluster.of_kind("ScaledObject")
        for trigger in inputs["spec"].get("triggers", ())
    }
    for address in sorted(filter(None, addresses)):
        yield _reachable(cluster, address)
    if not scalers and not addresses:
        yield ok("no model of the stack is scaled by metrics")


def _reachable(cluster: ExaminedCluster, address: str) -> Finding:
    name, _, rest = (urlsplit(address).hostname or "").partition(".")
    namespace, _, suffix = rest.partition(".")
    if suffix.split(".")[0] != "svc":
        return unknown(
            f"cannot check from here whether KEDA reaches {address}",
            f"curl {address}/-/ready",
        )
    if cluster.live.find(ObjectKey("v1", "Service", namespace, name)) is None:
        return error(
            f"KEDA queries {address}, but there is no Service {namespace}/{name}",
            f"{cluster.kubectl} get services -A | grep -i prometheus",
        )
    return ok(f"Service {namespace}/{name}, which KEDA queries, exists")
