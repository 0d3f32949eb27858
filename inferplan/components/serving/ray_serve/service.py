"""A Ray cluster with Serve applications, as the RayService that KubeRay reconciles, on NVIDIA or
Gaudi.
"""

import json
from collections.abc import Iterator
from typing import Any

import pulumi

from inferplan.components.fields import manifest
from inferplan.components.handles import Endpoint, EndpointProtocol, SecretRef
from inferplan.components.hosts import peers_are_known
from inferplan.components.kubernetes import CustomResource, core, meta, networking, policy
from inferplan.components.naming import selector
from inferplan.components.network import API_PORTS, outside, peers, pods, server_edges, tcp
from inferplan.components.network import policy as network_policy
from inferplan.components.pod_parts import container_security
from inferplan.components.serving import workload
from inferplan.components.serving.engine import Site, mounted_weights
from inferplan.components.serving.groups import pod_edges
from inferplan.components.serving.hardware import vendor_of
from inferplan.components.serving.model_service import MODEL_SERVICE, gated
from inferplan.components.serving.ray_serve.applications import CustomApplication
from inferplan.components.serving.ray_serve.pods import head_pod, worker_pod
from inferplan.components.serving.ray_serve.serve_config import serve_config
from inferplan.components.serving.ray_serve.spec import RayServeSpec
from inferplan.components.serving.volumes import MODELS
from inferplan.components.sources import ModelMount
from inferplan.kube.names import DOMAIN

PORT = 8000
DASHBOARD_PORT = 8265
UPGRADE_ANNOTATION = f"{DOMAIN}/upgrade-strategy"
"""Gives the reason for the object's upgrade strategy."""
_OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}


class RayServeService(pulumi.ComponentResource):
    """The RayService of one service, its account, its network policy and its disruption budget;
    exports `endpoint`.
    """

    endpoint: Endpoint

    def __init__(
        self,
        name: str,
        spec: RayServeSpec,
        site: Site,
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(MODEL_SERVICE, name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        weights = mounted_weights(name, spec, site)
        metadata = workload.object_meta(name, site)
        account = core.ServiceAccount(
            name, metadata=metadata, automount_service_account_token=False, opts=child
        )
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
            spec=ray_service(name, spec, site, weights, account.metadata["name"]),
            opts=gated(self, site, workload.budget(spec, site.target).rollout),
        )
        networking.NetworkPolicy(name, metadata=metadata, spec=_edges(name, spec, site), opts=child)
        if spec.min_replicas > 1:
            policy.PodDisruptionBudget(
                name, metadata=metadata, spec=_budget(name, spec), opts=child
            )
        self.endpoint = endpoint(name, spec, site.server_key)
        self.register_outputs({"host": self.endpoint.host, "port": PORT})


def _awaited(name: str, spec: RayServeSpec, site: Site, why: str) -> meta.ObjectMetaArgsDict:
    """Return metadata that makes both engines wait until a worker of the newest cluster serves; not
    without workers, which never serve.
    """
    # KubeRay stays Ready by the old cluster while a new one starts (seen with v1.7.0), so Ready
    # alone comes before the rollout.
    waits = json.dumps(["condition=Ready", "condition=UpgradeInProgress=False"])
    awaited = {"pulumi.com/waitFor": waits} if spec.min_replicas else {}
    # The list of worker groups has one owner. KubeRay (v1.7.0), which writes its defaults into it,
    # and Kueue (v0.19), which writes into its pods, were both seen to become the owner: without
    # patchForce no later change of ours is applied.
    annotations = {**awaited, "pulumi.com/patchForce": "true", UPGRADE_ANNOTATION: why}
    return workload.object_meta(name, site, queued=True, annotations=annotations)


def serve(
    name: str, spec: RayServeSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None
) -> Endpoint:
    return RayServeService(name, spec, site, opts=opts).endpoint


def endpoint(name: str, spec: RayServeSpec, server_key: SecretRef) -> Endpoint:  # noqa: ARG001 - Ray Serve checks no key
    llms = spec.llms.values()
    routes = tuple(
        app.route for app in spec.applications.values() if isinstance(app, CustomApplication)
    )
    openai = [
        EndpointProtocol(kind="openai", port=PORT, path=f"{app.route_prefix.rstrip('/')}/v1")
        for app in llms
    ]
    # Ray's own application has more routes than OpenAI's, so only applications of the user's own
    # get a protocol for all paths.
    own = [EndpointProtocol(kind="ray-serve", port=PORT, path="")] if routes else []
    return Endpoint(
        model=name,
        engine=spec.engine,
        host=f"{name}-serve-svc",
        protocols=(*openai, *own),
        health_path="/-/healthz",
        metrics_path="/metrics",
        metrics_port=8080,
        served_names=tuple(app.model_id or name for app in llms) or tuple(spec.applications),
        consumers=tuple(spec.consumers),
        # Serve's HTTP proxy checks no key (Ray 2.60); its token guards the dashboard, jobs and GCS.
        # The network policy admits the gateway alone.
        server_key=None,
        routes=routes,
    )


def ray_service(
    name: str,
    spec: RayServeSpec,
    site: Site,
    weights: ModelMount | None,
    service_account: pulumi.Input[str],
) -> dict[str, Any]:
    import yaml

    vendor = vendor_of(site.target)
    resource = "GPU" if vendor is None else vendor.ray_resource
    config = serve_config(
        name, spec.scaled_applications, weights=f"{MODELS}/{name}", resource=resource
    )
    return {
        "serveConfigV2": yaml.safe_dump(config, sort_keys=False, width=1000),
        "upgradeStrategy": {"type": spec.upgrade(site.target, site.accelerators_of_others)[0]},
        # The head has no accelerator and no proxy: requests go to workers only.
        "excludeHeadPodFromServeSvc": True,
        "rayClusterConfig": _cluster(name, spec, site, weights, service_account, resource),
    }


def _cluster(
    name: str,
    spec: RayServeSpec,
    site: Site,
    weights: ModelMount | None,
    service_account: pulumi.Input[str],
    resource: str,
) -> dict[str, Any]:
    # KubeRay reads the GPUs of a worker from its limits, but not HPUs (ray-operator common/pod.go,
    # v1.7.0).
    workers: dict[str, Any] = {
        "groupName": "workers",
        "replicas": spec.min_replicas,
        "minReplicas": spec.min_replicas,
        "maxReplicas": spec.max_replicas,
        "rayStartParams": (
            {"resources": f'"{{\\"HPU\\": {spec.accelerators_per_pod}}}"'}
            if resource == "HPU"
            else {}
        ),
        "template": manifest(worker_pod(name, spec, site, weights, service_account)),
    }
    cluster: dict[str, Any] = {
        "rayVersion": spec.ray_version,
        "headGroupSpec": {
            # No resources, so that no replica of a deployment runs on the head.
            "rayStartParams": {
                "dashboard-host": "0.0.0.0",  # noqa: S104 - the pod's own address; a NetworkPolicy protects it
                "num-cpus": "0",
                "num-gpus": "0",
            },
            "template": manifest(head_pod(name, spec, site, weights, service_account)),
        },
        "workerGroupSpecs": [workers],
    }
    if spec.scales_workers:
        cluster["enableInTreeAutoscaling"] = True
        workers["idleTimeoutSeconds"] = spec.idle_timeout_seconds
        # KubeRay sets no security context on the autoscaler's container (common/pod.go, v1.7.0),
        # and the namespace requires one.
        cluster["autoscalerOptions"] = {
            "version": "v2",
            "securityContext": container_security(read_only_root=False),
        }
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
    """Return a budget that lets one worker at a time be evicted. A RayCluster has no scale
    subresource, so Kubernetes needs the number that remains.
    """
    workers = {**selector(workload.COMPONENT, name), "ray.io/node-type": "worker"}
    return policy.PodDisruptionBudgetSpecArgsDict(
        min_available=spec.min_replicas - 1,
        selector=meta.LabelSelectorArgsDict(match_labels=workers),
    )


def _open_egress(spec: RayServeSpec) -> Iterator[str]:
    """Yield a sentence for each service that a NetworkPolicy cannot limit the cluster's pods to."""
    reach = "its pods can reach every IPv4 address on"
    if spec.scales_workers:
        yield f"{reach} ports 443 and 6443, because the address of the Kubernetes API is not known"
    if spec.gcs_fault_tolerance is not None:
        host, port = spec.gcs_fault_tolerance.redis
        if not peers_are_known(host):
            yield (
                f"{reach} port {port}, because a NetworkPolicy cannot match the host name {host} of"
                " Redis"
            )


def _edges(name: str, spec: RayServeSpec, site: Site) -> networking.NetworkPolicySpecArgsDict:
    """Return the policy: the gateway sends requests, the operator deploys, and the cluster's own
    pods exchange data on ports that Ray picks.
    """
    own = selector(workload.COMPONENT, name)
    anywhere = meta.LabelSelectorArgsDict()
    operator = networking.NetworkPolicyPeerArgsDict(
        namespace_selector=anywhere, pod_selector=meta.LabelSelectorArgsDict(match_labels=_OPERATOR)
    )
    inward, outward = (
        networking.NetworkPolicyIngressRuleArgsDict,
        networking.NetworkPolicyEgressRuleArgsDict,
    )
    inside, egress = pod_edges(own)
    if spec.gcs_fault_tolerance is not None:
        host, port = spec.gcs_fault_tolerance.redis
        egress.append(outward(to=peers(host), ports=tcp(port)))
    if spec.scales_workers:
        # The autoscaler in the head's pod requests workers from the Kubernetes API, whose address
        # is the cluster's own.
        egress.append(outward(to=[outside()], ports=tcp(*API_PORTS)))
    return network_policy(
        own,
        ingress=[
            inward(from_=[pods(site.gateway)], ports=tcp(PORT)),
            inward(from_=[operator], ports=tcp(PORT, DASHBOARD_PORT)),
            *inside,
        ],
        egress=[*egress, *server_edges(spec.egress.edges())],
    )
