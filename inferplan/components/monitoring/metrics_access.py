"""NetworkPolicies from Prometheus to metrics and from engines to a collector of traces, and the
login of scalers.

It neither installs nor configures Prometheus. vLLM serves its API on the same port as its metrics;
API calls require its key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pulumi

from inferplan.components.handles import Endpoint
from inferplan.components.kubernetes import CustomResource, core, networking
from inferplan.components.metrics_ports import METRICS_PORT
from inferplan.components.monitoring.dashboards import dashboards
from inferplan.components.monitoring.objectives import WatchedModel, approximated, unmeasured
from inferplan.components.monitoring.pod_monitors import pod_monitors
from inferplan.components.monitoring.rules import RULES, WatchedStack, rule_groups
from inferplan.components.monitoring.spec import DashboardsSpec, MonitoringSpec, PrometheusLogin
from inferplan.components.naming import PROMETHEUS_LOGIN, bounded, labels, selector
from inferplan.components.network import policy, server_edges, tcp
from inferplan.kube.names import COMPONENT_LABEL

# The component label of model servers' pods, and of preheats' pods.
_MODEL, _PREHEAT = "model", "preheat"
_GATEWAY = "gateway"
_LOGIN_KEYS = {
    "basic": {"username": "username", "password": "password"},
    "bearer": {"bearerToken": "token"},
}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The parts of a stack that monitoring reads: its endpoints, the models that can send traces,
    and what rules watch. `preheats` is true if preheats serve metrics.
    """

    endpoints: Sequence[Endpoint]
    traced: Sequence[str]
    preheats: bool
    stack: WatchedStack


class MetricsAccess(pulumi.ComponentResource):
    """Opens metrics ports to Prometheus only, and declares how the Prometheus operator finds them
    and how scalers log in.
    """

    def __init__(
        self,
        name: str,
        spec: MonitoringSpec,
        observed: Observed,
        *,
        namespace: pulumi.Input[str],
        gateway: Mapping[str, str],
        gateway_port: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:monitoring:MetricsAccess", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        reader: networking.NetworkPolicyPeerArgsDict = {
            "namespace_selector": {
                "match_labels": {"kubernetes.io/metadata.name": spec.prometheus.namespace}
            },
            "pod_selector": {"match_labels": spec.prometheus.pod_labels},
        }
        opened = [
            (each.model, selector(_MODEL, each.model), each.metrics_port)
            for each in observed.endpoints
        ]
        if any(each.counted for each in observed.endpoints):
            opened.append((_GATEWAY, dict(gateway), gateway_port))
        if observed.preheats:
            opened.append((_PREHEAT, {COMPONENT_LABEL: _PREHEAT}, METRICS_PORT))

        def network_policy(
            key: str, instance: str, content: networking.NetworkPolicySpecArgsDict
        ) -> None:
            called = bounded(instance, key)
            metadata = {
                "name": called,
                "namespace": namespace,
                "labels": labels("monitoring", instance),
            }
            networking.NetworkPolicy(called, metadata=metadata, spec=content, opts=child)

        for instance, pods, port in opened:
            network_policy(
                "metrics", instance, policy(pods, ingress=[{"from_": [reader], "ports": tcp(port)}])
            )
        if spec.tracing is not None:
            collector = server_edges(
                [
                    (
                        urlsplit(spec.tracing.url).hostname or "",
                        spec.tracing.cidrs,
                        [spec.tracing.port],
                    )
                ]
            )
            for model in observed.traced:
                network_policy("traces", model, policy(selector(_MODEL, model), egress=collector))
        if spec.prometheus.login is not None:
            _login(spec.prometheus.login, namespace, child)
        for kind, called, content in _operator_objects(spec, observed):
            _custom_resource(kind, called, content, spec.labels, namespace, child)
        _dashboards(spec.dashboards, observed.stack.namespace, namespace, child)
        for problem in _unwatched(spec, observed.stack.models):
            pulumi.log.warn(problem, self)
        self.register_outputs({})


def _custom_resource(
    kind: str,
    name: str,
    content: Mapping[str, Any],
    more_labels: Mapping[str, str],
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> None:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {**labels("monitoring", name), **more_labels},
    }
    CustomResource(
        name,
        api_version="monitoring.coreos.com/v1",
        kind=kind,
        metadata=metadata,
        spec=content,
        opts=opts,
    )


def _dashboards(
    spec: DashboardsSpec | None,
    name: str,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> None:
    if spec is None:
        return
    for file, text in dashboards(name).items():
        called = file.removesuffix(".json")
        metadata = {
            "name": called,
            "namespace": namespace,
            "labels": {**labels("monitoring", called), **spec.labels},
        }
        core.ConfigMap(called, metadata=metadata, data={file: text}, opts=opts)


def _operator_objects(
    spec: MonitoringSpec, observed: Observed
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield kind, name and spec of each object of the Prometheus operator."""
    for called, content in pod_monitors(
        spec, observed.endpoints, preheats=observed.preheats
    ).items():
        yield "PodMonitor", called, content
    if spec.rules is not None:
        yield "PrometheusRule", RULES, rule_groups(observed.stack)


def _unwatched(spec: MonitoringSpec, models: Sequence[WatchedModel]) -> Iterator[str]:
    for model in models if spec.rules is not None else ():
        for objective in unmeasured(model):
            yield (
                f"{model.name}: no metric of engine {model.engine} measures slo.{objective}, so no"
                " alert watches it"
            )
        for objective, seconds in approximated(model):
            written = getattr(model.slo, objective)
            yield (
                f"{model.name}: the metrics of engine {model.engine} measure slo.{objective}"
                f" {written} at {seconds:g} s; no slower request counts as kept"
            )


def _login(
    login: PrometheusLogin, namespace: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> None:
    references = [
        {"parameter": name, "name": login.secret_name, "key": key}
        for name, key in _LOGIN_KEYS[login.mode].items()
    ]
    CustomResource(
        PROMETHEUS_LOGIN,
        api_version="keda.sh/v1alpha1",
        kind="TriggerAuthentication",
        metadata={
            "name": PROMETHEUS_LOGIN,
            "namespace": namespace,
            "labels": labels("monitoring", PROMETHEUS_LOGIN),
        },
        spec={"secretTargetRef": references},
        opts=opts,
    )
