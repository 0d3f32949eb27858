"""NetworkPolicies from Prometheus to the models' metrics, one per model because the ports differ.

It neither installs nor configures Prometheus. vLLM serves its API on the same port as its metrics; API calls require its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pulumi

from inferplan.components.kubernetes import networking
from inferplan.components.naming import bounded, labels, selector
from inferplan.components.network import policy, tcp

if TYPE_CHECKING:
    from inferplan.components.handles import Endpoint
    from inferplan.components.monitoring.spec import MonitoringSpec

# The component label of model servers' pods.
_MODEL = "model"
_GATEWAY = "gateway"


class MetricsAccess(pulumi.ComponentResource):
    """Opens the metrics port of each endpoint to Prometheus only, and that of the `gateway` pods if they count requests."""

    def __init__(
        self,
        name: str,
        spec: MonitoringSpec,
        *,
        namespace: pulumi.Input[str],
        endpoints: Sequence[Endpoint],
        gateway: Mapping[str, str],
        gateway_port: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:monitoring:MetricsAccess", name, {"spec": spec.intent()}, opts)
        reader: networking.NetworkPolicyPeerArgsDict = {
            "namespace_selector": {"match_labels": {"kubernetes.io/metadata.name": spec.prometheus.namespace}},
            "pod_selector": {"match_labels": spec.prometheus.pod_labels},
        }
        opened = [(endpoint.model, selector(_MODEL, endpoint.model), endpoint.metrics_port) for endpoint in endpoints]
        if any(endpoint.counted for endpoint in endpoints):
            opened.append((_GATEWAY, dict(gateway), gateway_port))
        for instance, pods, port in opened:
            policy_name = bounded(instance, "metrics")
            networking.NetworkPolicy(
                policy_name,
                metadata={"name": policy_name, "namespace": namespace, "labels": labels("monitoring", instance)},
                spec=policy(pods, ingress=[{"from_": [reader], "ports": tcp(port)}]),
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
