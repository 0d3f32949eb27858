"""NetworkPolicies from Prometheus to the models' metrics, one per model because the ports differ.

It neither installs nor configures Prometheus. vLLM serves its API on the same port as its metrics; API calls require its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

from components.naming import bounded, labels, selector
from components.network import policy, tcp

if TYPE_CHECKING:
    from components.handles import Endpoint
    from components.monitoring.spec import MonitoringSpec

# The component label of model servers' pods.
_MODEL = "model"


class MetricsAccess(pulumi.ComponentResource):
    """Opens the metrics port of each endpoint to Prometheus only."""

    def __init__(
        self,
        name: str,
        spec: MonitoringSpec,
        *,
        namespace: pulumi.Input[str],
        endpoints: Sequence[Endpoint],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:monitoring:MetricsAccess", name, {"spec": spec.intent()}, opts)
        reader = networking.NetworkPolicyPeerArgs(
            namespace_selector=meta.LabelSelectorArgs(match_labels={"kubernetes.io/metadata.name": spec.prometheus.namespace}),
            pod_selector=meta.LabelSelectorArgs(match_labels=spec.prometheus.pod_labels),
        )
        for endpoint in endpoints:
            policy_name = bounded(endpoint.model, "metrics")
            edge = networking.NetworkPolicyIngressRuleArgs(from_=[reader], ports=tcp(endpoint.metrics_port))
            networking.NetworkPolicy(
                policy_name,
                metadata=meta.ObjectMetaArgs(name=policy_name, namespace=namespace, labels=labels("monitoring", endpoint.model)),
                spec=policy(selector(_MODEL, endpoint.model), ingress=[edge]),
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
