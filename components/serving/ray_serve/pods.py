"""The pods of a Ray cluster: a head without cards, workers with them. KubeRay adds Ray's command and its probes."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.handles import ModelMount
from components.naming import selector
from components.serving import placement, workload
from components.serving.artifacts import artifact_gates, artifact_mounts
from components.serving.model_service import MODEL_VOLUME, model_mount, model_volume, verification
from components.serving.ray_serve.spec import RayServeSpec
from components.serving.site import Site
from components.spec import canonical_cpu, canonical_size
from components.spread import spread

# The user `ray` of Ray's images, whose Python and home only it may read.
RAY_USER = 1000


def head_pod(name: str, spec: RayServeSpec, site: Site, service_account: pulumi.Input[str]) -> core.PodTemplateSpecArgs:
    """The template of the head."""
    memory = canonical_size(spec.head.memory)
    resources = core.ResourceRequirementsArgs(requests={"cpu": canonical_cpu(spec.head.cpu), "memory": memory}, limits={"memory": memory})
    container = core.ContainerArgs(
        name="ray-head",
        image=workload.image_of(spec, "ray-serve", site.target),
        env=workload.environment(spec, {}, {}),
        ports=[
            core.ContainerPortArgs(name=port, container_port=number)
            # Without a port called serve on the head, which serves nothing here, KubeRay makes no serve service (seen with v1.7.0).
            for port, number in {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080, "serve": 8000}.items()
        ],
        resources=resources,
        security_context=workload.container_security(read_only_root=False),
        volume_mounts=workload.scratch_mounts(),
    )
    # The autoscaler runs beside the head as the account that KubeRay makes for it.
    return _template(name, spec, site, container, service_account if spec.worker_autoscaling is None else None)


def worker_pod(
    name: str, spec: RayServeSpec, site: Site, weights: ModelMount, service_account: pulumi.Input[str]
) -> core.PodTemplateSpecArgs:
    """The template of the workers, with their cards and the model's files."""
    files = model_mount(f"/models/{name}", weights)
    image = workload.image_of(spec, "ray-serve", site.target)
    container = core.ContainerArgs(
        name="ray-worker",
        image=image,
        # The gateway presents this key to Serve, which compares nothing; an application of one's own may.
        env=workload.environment(spec, {"HF_HUB_OFFLINE": "1"}, {"SERVER_KEY": site.server_key}),
        ports=[core.ContainerPortArgs(name="serve", container_port=8000), core.ContainerPortArgs(name="metrics", container_port=8080)],
        resources=workload.resources_of(spec, spec.cards, site.target),
        lifecycle=core.LifecycleArgs(
            pre_stop=core.LifecycleHandlerArgs(sleep=core.SleepActionArgs(seconds=workload.PRE_STOP_SECONDS)),
        ),
        security_context=workload.container_security(read_only_root=False),
        volume_mounts=[*workload.scratch_mounts(), files, *artifact_mounts(site.artifacts, MODEL_VOLUME)],
    )
    gates = [*verification(image, weights, [files]), *artifact_gates(site.artifacts, MODEL_VOLUME, image)]
    return _template(name, spec, site, container, service_account, gates=gates, volumes=[model_volume(weights)])


def _template(
    name: str,
    spec: RayServeSpec,
    site: Site,
    container: core.ContainerArgs,
    account: pulumi.Input[str] | None,
    *,
    gates: Sequence[core.ContainerArgs] = (),
    volumes: Sequence[core.VolumeArgs] = (),
) -> core.PodTemplateSpecArgs:
    target = site.target
    return core.PodTemplateSpecArgs(
        metadata=meta.ObjectMetaArgs(labels={**spec.labels, **selector(workload.COMPONENT, name)}),
        spec=core.PodSpecArgs(
            service_account_name=account,
            automount_service_account_token=None if account is None else False,
            enable_service_links=False,
            termination_grace_period_seconds=workload.budget(spec, spec.cards, target).grace,
            runtime_class_name=target.runtime_class,
            node_selector=dict(target.node_selector),
            tolerations=placement.tolerations(target),
            affinity=placement.affinity(spec),
            topology_spread_constraints=spread(selector(workload.COMPONENT, name)),
            security_context=workload.pod_security(user=RAY_USER),
            init_containers=list(gates) or None,
            containers=[container],
            volumes=[*workload.scratch(spec), *volumes],
        ),
    )
