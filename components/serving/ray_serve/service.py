"""A Ray cluster with Serve applications, as the RayService that KubeRay reconciles, on NVIDIA or Gaudi.

It installs no operator. What KubeRay makes of the object (clusters, pods, the serve service) is KubeRay's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.policy import v1 as policy

from components.egress import peers, peers_are_known
from components.fields import manifest
from components.handles import Endpoint, EndpointProtocol, ModelMount, ObjectStore, SecretRef
from components.naming import labels, selector
from components.network import outside, pods, tcp
from components.network import policy as network_policy
from components.serving import workload
from components.serving.engine import Site
from components.serving.model_service import MODEL_SERVICE, gated, object_meta
from components.serving.ray_serve.applications import LlmApplication
from components.serving.ray_serve.pods import head_pod, worker_pod
from components.serving.ray_serve.serve_config import serve_config
from components.serving.ray_serve.spec import RayServeSpec
from kube.names import DOMAIN

PORT = 8000
DASHBOARD_PORT = 8265
MODELS = "/models"
UPGRADE_ANNOTATION = f"{DOMAIN}/upgrade-strategy"
"""Says on the object why its upgrade strategy is what it is."""
_OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}


class RayServeService(pulumi.ComponentResource):
    """The RayService of one service, its account, its network edge and its disruption budget; lends `endpoint`."""

    endpoint: Endpoint

    def __init__(self, name: str, spec: RayServeSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(MODEL_SERVICE, name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        if isinstance(site.weights, ObjectStore):
            raise TypeError(f"models.{name}: ray-serve reads files and the weights are in a bucket; add preheat: {{into: <nfs store>}}")
        metadata = object_meta(name, site.namespace)
        account = core.ServiceAccount(name, metadata=metadata, automount_service_account_token=False, opts=child)
        strategy, why = spec.upgrade(site.target, site.accelerators_of_others)
        # Pulumi's own preview shows messages without their resource where it shows differences.
        pulumi.log.info(f"{name}: upgradeStrategy {strategy}: {why}", self)
        for note in _open_egress(spec):
            pulumi.log.info(f"{name}: {note}", self)
        CustomResource(
            name,
            api_version="ray.io/v1",
            kind="RayService",
            metadata=_awaited(name, spec, site, why),
            spec=ray_service(name, spec, site, site.weights, account.metadata.name),
            opts=gated(self, site, workload.budget(spec, spec.accelerators_per_pod, site.target).rollout),
        )
        networking.NetworkPolicy(name, metadata=metadata, spec=_edges(name, spec, site), opts=child)
        if spec.min_replicas > 1:
            policy.PodDisruptionBudget(name, metadata=metadata, spec=_budget(name, spec), opts=child)
        self.endpoint = endpoint(name, spec, site.server_key)
        self.register_outputs({"host": self.endpoint.host, "port": PORT})


def _awaited(name: str, spec: RayServeSpec, site: Site, why: str) -> meta.ObjectMetaArgsDict:
    """Metadata that has both engines wait until a worker of the newest cluster serves; without workers that never comes."""
    # KubeRay stays Ready by the old cluster while a new one starts (seen with v1.7.0), so Ready alone is told before anything is rolled out.
    waits = json.dumps(["condition=Ready", "condition=UpgradeInProgress=False"])
    awaited = {"pulumi.com/waitFor": waits} if spec.min_replicas else {}
    carried = {**labels(workload.COMPONENT, name), **site.queue_labels}
    # The list of worker groups has one owner, and KubeRay (v1.7.0), which writes its defaults into it, and Kueue (v0.19), which writes into
    # its pods, both were seen to become it: without this no later change of ours is taken.
    annotations = {**awaited, "pulumi.com/patchForce": "true", UPGRADE_ANNOTATION: why}
    return meta.ObjectMetaArgsDict(name=name, namespace=site.namespace, labels=carried, annotations=annotations)


def serve(name: str, spec: RayServeSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None) -> Endpoint:
    """Declare the objects of one model; return its endpoint."""
    return RayServeService(name, spec, site, opts=opts).endpoint


def endpoint(name: str, spec: RayServeSpec, server_key: SecretRef) -> Endpoint:  # noqa: ARG001 - Ray Serve checks no key
    """What gateway, policies and status read about this service."""
    llms = [app for app in spec.applications.values() if isinstance(app, LlmApplication)]
    routes = tuple(app.route for app in spec.applications.values() if not isinstance(app, LlmApplication))
    openai = [EndpointProtocol(kind="openai", port=PORT, path=f"{app.route_prefix.rstrip('/')}/v1") for app in llms]
    # Ray's own application has further routes than OpenAI's, so a way to every path is made for applications of one's own only.
    own = [EndpointProtocol(kind="ray-serve", port=PORT, path="")] if routes else []
    return Endpoint(
        model=name,
        engine="ray-serve",
        host=f"{name}-serve-svc",
        protocols=(*openai, *own),
        health_path="/-/healthz",
        metrics_path="/metrics",
        metrics_port=8080,
        served_names=tuple(app.model_id or name for app in llms) or tuple(spec.applications),
        consumers=tuple(spec.consumers),
        # Serve's HTTP proxy knows no key (Ray 2.60); its token guards the dashboard, jobs and GCS. The network policy admits the gateway alone.
        server_key=None,
        routes=routes,
    )


def ray_service(
    name: str, spec: RayServeSpec, site: Site, weights: ModelMount | None, service_account: pulumi.Input[str]
) -> dict[str, Any]:
    """The `spec` of the RayService."""
    import yaml

    gaudi = site.target.accelerator is not None and site.target.accelerator.vendor == "habana"
    card = "HPU" if gaudi else "GPU"
    config = serve_config(name, spec.scaled_applications, weights=f"{MODELS}/{name}", card=card)
    return {
        "serveConfigV2": yaml.safe_dump(config, sort_keys=False, width=1000),
        "upgradeStrategy": {"type": spec.upgrade(site.target, site.accelerators_of_others)[0]},
        # The head holds no card and no proxy: requests go to workers only.
        "excludeHeadPodFromServeSvc": True,
        "rayClusterConfig": _cluster(name, spec, site, weights, service_account, card),
    }


def _cluster(
    name: str, spec: RayServeSpec, site: Site, weights: ModelMount | None, service_account: pulumi.Input[str], card: str
) -> dict[str, Any]:
    # KubeRay knows how many GPUs a worker has from its limits, and nothing of HPUs (ray-operator common/pod.go, v1.7.0).
    workers: dict[str, Any] = {
        "groupName": "workers",
        "replicas": spec.min_replicas,
        "minReplicas": spec.min_replicas,
        "maxReplicas": spec.most_workers,
        "rayStartParams": {"resources": f'"{{\\"HPU\\": {spec.accelerators_per_pod}}}"'} if card == "HPU" else {},
        "template": manifest(worker_pod(name, spec, site, weights, service_account)),
    }
    cluster: dict[str, Any] = {
        "rayVersion": spec.ray_version,
        "headGroupSpec": {
            # Nothing to give away, so that no replica of a deployment lands on the head.
            "rayStartParams": {"dashboard-host": "0.0.0.0", "num-cpus": "0", "num-gpus": "0"},  # noqa: S104 - the pod's own address; a NetworkPolicy stands before it
            "template": manifest(head_pod(name, spec, site, weights, service_account)),
        },
        "workerGroupSpecs": [workers],
    }
    if spec.scales_workers:
        cluster["enableInTreeAutoscaling"] = True
        workers["idleTimeoutSeconds"] = spec.idle_timeout_seconds
        # KubeRay gives the autoscaler's container no security context of its own (common/pod.go, v1.7.0), and the namespace admits none without.
        cluster["autoscalerOptions"] = {"version": "v2", "securityContext": workload.container_security(read_only_root=False)}
    if spec.authenticates:
        cluster["authOptions"] = {"mode": "token"}
    if spec.gcs_fault_tolerance is not None:
        gcs: dict[str, Any] = {"redisAddress": spec.gcs_fault_tolerance.redis_address}
        if spec.gcs_fault_tolerance.password_secret is not None:
            reference = {"name": spec.gcs_fault_tolerance.password_secret, "key": "password"}
            gcs["redisPassword"] = {"valueFrom": {"secretKeyRef": reference}}
        cluster["gcsFaultToleranceOptions"] = gcs
    return cluster


def _budget(name: str, spec: RayServeSpec) -> policy.PodDisruptionBudgetSpecArgsDict:
    """One worker at a time may be evicted. A RayCluster has no scale subresource to count from, so Kubernetes wants the number that stays."""
    workers = {**selector(workload.COMPONENT, name), "ray.io/node-type": "worker"}
    return policy.PodDisruptionBudgetSpecArgsDict(
        min_available=spec.min_replicas - 1, selector=meta.LabelSelectorArgsDict(match_labels=workers)
    )


def _open_egress(spec: RayServeSpec) -> Iterator[str]:
    """A sentence for each service that a NetworkPolicy cannot limit the cluster's pods to."""
    reach = "its pods can reach every IPv4 address on"
    if spec.scales_workers:
        yield f"{reach} ports 443 and 6443, because the address of the Kubernetes API is not known"
    if spec.gcs_fault_tolerance is not None:
        host, _, port = spec.gcs_fault_tolerance.redis_address.rpartition(":")
        if not peers_are_known(host):
            yield f"{reach} port {port}, because a NetworkPolicy cannot match the host name {host} of Redis"


def _edges(name: str, spec: RayServeSpec, site: Site) -> networking.NetworkPolicySpecArgsDict:
    """The gateway may ask, the operator may deploy, and the cluster's own pods talk on ports that Ray picks."""
    own = selector(workload.COMPONENT, name)
    anywhere = meta.LabelSelectorArgsDict()
    operator = networking.NetworkPolicyPeerArgsDict(
        namespace_selector=anywhere, pod_selector=meta.LabelSelectorArgsDict(match_labels=_OPERATOR)
    )
    inward, outward = networking.NetworkPolicyIngressRuleArgsDict, networking.NetworkPolicyEgressRuleArgsDict
    picked = [networking.NetworkPolicyPortArgsDict(port=1024, end_port=65_535, protocol="TCP")]
    egress = [outward(to=[pods(own)], ports=picked)]
    if spec.gcs_fault_tolerance is not None:
        host, _, port = spec.gcs_fault_tolerance.redis_address.rpartition(":")
        egress.append(outward(to=peers(host), ports=tcp(int(port))))
    if spec.scales_workers:
        # The autoscaler beside the head asks the Kubernetes API for workers; its address is the cluster's own.
        egress.append(outward(to=[outside()], ports=tcp(443, 6443)))
    return network_policy(
        own,
        ingress=[
            inward(from_=[pods(site.gateway)], ports=tcp(PORT)),
            inward(from_=[operator], ports=tcp(PORT, DASHBOARD_PORT)),
            inward(from_=[pods(own)], ports=picked),
        ],
        egress=egress,
    )
