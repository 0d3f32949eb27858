"""Checks of what scalers read: the metrics of pods, and the Prometheus that KEDA asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from operations.doctor.findings import Finding, error, ok, unknown
from operations.live import ObjectKey

if TYPE_CHECKING:
    from operations.doctor.cluster import ExaminedCluster

_METRICS = "metrics.k8s.io/v1beta1"
_METRICS_SERVER = "apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml"


def check_scaling(cluster: ExaminedCluster) -> Iterator[Finding]:
    """Find scalers that would get no metrics."""
    scalers = [key.name for key, _ in cluster.of_kind("HorizontalPodAutoscaler")]
    if scalers and not cluster.live.serves(_METRICS, "PodMetrics"):
        message = f"the HorizontalPodAutoscaler of {', '.join(scalers)} follows CPU, and the cluster does not serve {_METRICS}"
        yield error(message, f"{cluster.kubectl} {_METRICS_SERVER}")
    elif scalers:
        yield ok(f"the cluster serves {_METRICS}, which {len(scalers)} HorizontalPodAutoscalers follow")
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
        return unknown(f"not provable from here: that KEDA reaches {address}", f"curl {address}/-/ready")
    if cluster.live.find(ObjectKey("v1", "Service", namespace, name)) is None:
        return error(
            f"KEDA asks {address}, and there is no Service {namespace}/{name}", f"{cluster.kubectl} get services -A | grep -i prometheus"
        )
    return ok(f"Service {namespace}/{name}, which KEDA asks, exists")
