"""A model behind vLLM's OpenAI-compatible server, on NVIDIA or Gaudi.

It serves inside the cluster only: who may come in is the gateway's business, and no key of a consumer reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.policy import v1 as policy

from components.handles import Endpoint, ModelMount, NodeTarget, ObjectStore, Protocol, SecretRef
from components.naming import labels, selector
from components.network import outside, pods, tcp
from components.network import policy as network_policy
from components.serving import workload
from components.serving.spec import VLLM_OPTIONS, VllmSpec

PORT = 8000
MODELS = "/models"


class VllmService(pulumi.ComponentResource):
    """Deployment, Service, network edge and disruption budget of one vLLM model; lends `endpoint`."""

    endpoint: Endpoint

    def __init__(
        self,
        name: str,
        spec: VllmSpec,
        *,
        namespace: pulumi.Input[str],
        target: NodeTarget,
        weights: ModelMount | ObjectStore,
        server_key: SecretRef,
        gateway: Mapping[str, str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:serving:VllmService", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        times = workload.budget(spec, spec.cards, target)
        account = core.ServiceAccount(name, metadata=_meta(name, namespace), automount_service_account_token=False, opts=child)
        apps.Deployment(
            name,
            metadata=_meta(name, namespace),
            spec=workload.deployment(
                name,
                spec,
                server(name, spec, target=target, weights=weights, server_key=server_key),
                target=target,
                cards=spec.cards,
                times=times,
                service_account=account.metadata.name,
            ),
            opts=_deployment_options(self, weights, times.rollout),
        )
        core.Service(name, metadata=_meta(name, namespace), spec=_service(name), opts=child)
        networking.NetworkPolicy(name, metadata=_meta(name, namespace), spec=_edges(name, gateway, weights), opts=child)
        if spec.replicas > 1:
            policy.PodDisruptionBudget(name, metadata=_meta(name, namespace), spec=_budget(name), opts=child)
        self.endpoint = endpoint(name, spec, server_key)
        self.register_outputs({"host": self.endpoint.host, "port": PORT})


def endpoint(name: str, spec: VllmSpec, server_key: SecretRef) -> Endpoint:
    """What gateway, policies and status read about this model."""
    return Endpoint(
        model=name,
        engine="vllm",
        host=name,
        protocols=(Protocol(kind="openai", port=PORT, path="/v1"),),
        health_path="/health",
        metrics_path="/metrics",
        metrics_port=PORT,
        served_names=(spec.served_model_name or name,),
        consumers=tuple(spec.consumers),
        server_key=server_key,
    )


def server(name: str, spec: VllmSpec, *, target: NodeTarget, weights: ModelMount | ObjectStore, server_key: SecretRef) -> workload.Server:
    """What runs in the pod: `vllm serve` on the mounted files, or on the bucket itself through the streaming loader."""
    streamed = isinstance(weights, ObjectStore)
    clear, secrets = workload.store_environment(weights) if isinstance(weights, ObjectStore) else ({}, {})
    if streamed and weights.endpoint:
        clear["RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"] = "0" if weights.path_style else "1"
    return workload.Server(
        image=workload.image_of(spec, "vllm", target),
        args=serve_args(name, spec, target=target, weights=weights),
        port=PORT,
        health_path="/health",
        env={**_engine_environment(spec, target), **clear},
        secret_env={"VLLM_API_KEY": server_key, **secrets},
        volumes=() if isinstance(weights, ObjectStore) else [_model_volume(weights)],
        mounts=() if isinstance(weights, ObjectStore) else [_model_mount(name, weights)],
    )


def serve_args(name: str, spec: VllmSpec, *, target: NodeTarget, weights: ModelMount | ObjectStore) -> list[str]:
    """Arguments of `vllm serve`, after the image's entry point; the order is fixed, so that previews stay quiet."""
    if isinstance(weights, ObjectStore):
        model = "s3://" + "/".join(part.strip("/") for part in (weights.bucket, weights.prefix, spec.weights.path) if part)
    else:
        model = f"{MODELS}/{name}"
    arguments = [model, f"--served-model-name={spec.served_model_name or name}", f"--port={PORT}"]
    arguments.append(f"--shutdown-timeout={spec.drain_seconds}")
    if isinstance(weights, ObjectStore):
        arguments.append("--load-format=runai_streamer")
    for field, value in _options(spec, target).items():
        option, *negation = VLLM_OPTIONS[field]
        if value is None:
            continue
        if isinstance(value, bool):
            arguments.append(option if value else negation[0])
        else:
            arguments.append(f"{option}={value}")
    return [*arguments, *spec.extra_args]


def _options(spec: VllmSpec, target: NodeTarget) -> dict[str, object]:
    options: dict[str, object] = {field: getattr(spec, field) for field in VLLM_OPTIONS}
    accelerator = target.accelerator
    if accelerator is not None and accelerator.vendor == "habana":
        # The values of every configuration that vllm-gaudi lists as validated (README and .cd/, 2026-08).
        options["dtype"] = spec.dtype or "bfloat16"
        options["block_size"] = spec.block_size or 128
    elif accelerator is not None and not accelerator.bfloat16:
        options["dtype"] = spec.dtype or "half"
    return options


def _engine_environment(spec: VllmSpec, target: NodeTarget) -> dict[str, str]:
    environment = {"VLLM_CACHE_ROOT": f"{workload.CACHE}/vllm", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if target.accelerator is not None and target.accelerator.vendor == "habana":
        environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
        if spec.cards > 1:
            # Mandatory for tensor parallelism with HPU graphs (vllm-gaudi docs/configuration/env_variables.md, 2026-08).
            environment["PT_HPU_ENABLE_LAZY_COLLECTIVES"] = "true"
    return environment


def _model_volume(weights: ModelMount) -> core.VolumeArgs:
    claim = core.PersistentVolumeClaimVolumeSourceArgs(claim_name=weights.claim.name, read_only=True)
    return core.VolumeArgs(name="model", persistent_volume_claim=claim)


def _model_mount(name: str, weights: ModelMount) -> core.VolumeMountArgs:
    return core.VolumeMountArgs(name="model", mount_path=f"{MODELS}/{name}", sub_path=weights.sub_path, read_only=True)


def _deployment_options(component: VllmService, weights: ModelMount | ObjectStore, rollout_seconds: int) -> pulumi.ResourceOptions:
    gate = weights.gate if isinstance(weights, ModelMount) else None
    timeout = f"{rollout_seconds}s"
    return pulumi.ResourceOptions(
        parent=component,
        # No field of a pod names the Job that fills its share: without this edge servers would start on an empty directory.
        depends_on=[] if gate is None else [gate],
        custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
    )


def _service(name: str) -> core.ServiceSpecArgs:
    return core.ServiceSpecArgs(
        type="ClusterIP",
        selector=selector(workload.COMPONENT, name),
        ports=[core.ServicePortArgs(name="http", port=PORT, target_port="http", protocol="TCP", app_protocol="http")],
    )


def _edges(name: str, gateway: Mapping[str, str], weights: ModelMount | ObjectStore) -> networking.NetworkPolicySpecArgs:
    inbound = networking.NetworkPolicyIngressRuleArgs(from_=[pods(gateway)], ports=tcp(PORT))
    if not isinstance(weights, ObjectStore):
        return network_policy(selector(workload.COMPONENT, name), ingress=[inbound])
    outbound = networking.NetworkPolicyEgressRuleArgs(to=[outside()], ports=tcp(weights.port))
    return network_policy(selector(workload.COMPONENT, name), ingress=[inbound], egress=[outbound])


def _budget(name: str) -> policy.PodDisruptionBudgetSpecArgs:
    return policy.PodDisruptionBudgetSpecArgs(
        max_unavailable=1, selector=meta.LabelSelectorArgs(match_labels=selector(workload.COMPONENT, name))
    )


def _meta(name: str, namespace: pulumi.Input[str]) -> meta.ObjectMetaArgs:
    return meta.ObjectMetaArgs(name=name, namespace=namespace, labels=labels(workload.COMPONENT, name))
