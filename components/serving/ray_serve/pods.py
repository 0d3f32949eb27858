"""The pods of a Ray cluster: a head without accelerators, workers with them. KubeRay adds Ray's command and its probes."""

from __future__ import annotations

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.fields import present
from components.handles import ModelMount
from components.naming import selector
from components.pod_parts import NO_DEVICES, spread
from components.serving import placement, workload
from components.serving.artifacts import artifact_gates, artifact_mounts
from components.serving.demand import Scratch, scratch_of
from components.serving.engine import Site
from components.serving.model_service import MODEL_VOLUME, model_mounts, model_volumes, verification
from components.serving.ray_serve.spec import RayServeSpec
from components.serving.vllm.engine_args import VLLM_ENVIRONMENT
from images.catalogue import catalogue, family_of
from kube.quantity import canonical

# The head is none of the models' share of a node: it stands in what they leave.
_HEAD_SHARE = 0.05
# The user `ray` of Ray's images, whose Python and home only it may read.
RAY_USER = 1000
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", **VLLM_ENVIRONMENT}


def head_pod(
    name: str, spec: RayServeSpec, site: Site, weights: ModelMount | None, service_account: pulumi.Input[str]
) -> core.PodTemplateSpecArgsDict:
    """The template of the head: no accelerator, and the model's files all the same.

    Serve runs an application's builder as a task that asks for no CPU (ray 2.60, serve/_private/application_state.py), and such a task
    may land on the head whatever `num-cpus` says.
    """
    files = _model_files(name, spec, site, weights)
    memory = canonical(spec.head.memory)
    sizes = scratch_of(spec, site.target, memory=memory, share=_HEAD_SHARE)
    resources = core.ResourceRequirementsArgsDict(
        requests={"cpu": canonical(spec.head.cpu), "memory": memory, **sizes.request(_HEAD_SHARE, site.target)},
        limits={"memory": memory},
    )
    container = present(
        core.ContainerArgsDict(
            name="ray-head",
            image=workload.image_of(spec, "ray-serve", site.target),
            working_dir=_working_directory(spec),
            # An image for GPUs names all of them: without this the head would see, and offer, those of the pods beside it.
            env=workload.environment(spec, {**_ENVIRONMENT, **NO_DEVICES}, {"SERVER_KEY": site.server_key}, target=site.target),
            ports=[
                core.ContainerPortArgsDict(name=port, container_port=number)
                # Without a port called serve on the head, which serves nothing here, KubeRay makes no serve service (seen with v1.7.0).
                for port, number in {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080, "serve": 8000}.items()
            ],
            resources=resources,
            # Ray writes below its home and /tmp/ray only, which are volumes (Ray 2.60 started with a read-only root, 2026-11).
            security_context=workload.container_security(read_only_root=True),
            volume_mounts=[*workload.scratch_mounts(site.target), *files],
        )
    )
    # The autoscaler runs beside the head as the account that KubeRay makes for it.
    account = service_account if spec.worker_autoscaling is None else None
    return _template(name, spec, site, container, account, weights=weights, sizes=sizes)


def _has_nvidia(site: Site) -> bool:
    return site.target.accelerator is not None and site.target.accelerator.vendor == "nvidia"


def worker_pod(
    name: str, spec: RayServeSpec, site: Site, weights: ModelMount | None, service_account: pulumi.Input[str]
) -> core.PodTemplateSpecArgsDict:
    """The template of the workers, with their accelerators and the model's files."""
    container = present(
        core.ContainerArgsDict(
            name="ray-worker",
            image=workload.image_of(spec, "ray-serve", site.target),
            # The gateway presents this key to Serve, which compares nothing; an application of one's own may.
            working_dir=_working_directory(spec),
            env=workload.environment(spec, _ENVIRONMENT, {"SERVER_KEY": site.server_key}, target=site.target),
            ports=[
                core.ContainerPortArgsDict(name="serve", container_port=8000),
                core.ContainerPortArgsDict(name="metrics", container_port=8080),
            ],
            resources=workload.resources_of(spec, spec.accelerators_per_pod, site.target),
            lifecycle=core.LifecycleArgsDict(
                pre_stop=core.LifecycleHandlerArgsDict(sleep=core.SleepActionArgsDict(seconds=workload.PRE_STOP_SECONDS)),
            ),
            # NVIDIA's container hook writes into the root file system when it adds the driver's libraries.
            security_context=workload.container_security(read_only_root=not _has_nvidia(site)),
            volume_mounts=[*workload.scratch_mounts(site.target), *_model_files(name, spec, site, weights)],
        )
    )
    sizes = workload.replica_scratch(spec, spec.accelerators_per_pod, site.target)
    return _template(name, spec, site, container, service_account, weights=weights, sizes=sizes)


def _model_files(name: str, spec: RayServeSpec, site: Site, weights: ModelMount | None) -> list[core.VolumeMountArgsDict]:
    return [*model_mounts(f"/models/{name}", weights), *artifact_mounts(site.artifacts, MODEL_VOLUME), *placement.mounts(spec)]


def _working_directory(spec: RayServeSpec) -> str | None:
    """The directory that Ray starts in. Code in an image of the user's own is imported from the image's directory, which then stays."""
    known = spec.image is not None and family_of(spec.image) is catalogue()["ray"]
    return catalogue()["ray"].workdir if known else None


def _template(
    name: str,
    spec: RayServeSpec,
    site: Site,
    container: core.ContainerArgsDict,
    account: pulumi.Input[str] | None,
    *,
    weights: ModelMount | None,
    sizes: Scratch,
) -> core.PodTemplateSpecArgsDict:
    target = site.target
    files = model_mounts(f"/models/{name}", weights)
    gates = [*verification(weights, files, spec.preheat), *artifact_gates(site.artifacts, MODEL_VOLUME, spec.preheat)]
    return core.PodTemplateSpecArgsDict(
        metadata=present(
            meta.ObjectMetaArgsDict(
                labels={**spec.labels, **selector(workload.COMPONENT, name)}, annotations=dict(spec.annotations) or None
            )
        ),
        spec=present(
            core.PodSpecArgsDict(
                service_account_name=account,
                automount_service_account_token=None if account is None else False,
                enable_service_links=False,
                termination_grace_period_seconds=workload.budget(spec, spec.accelerators_per_pod, target).grace,
                runtime_class_name=target.runtime_class,
                node_selector=dict(target.node_selector),
                tolerations=placement.tolerations(target, spec.tolerations),
                priority_class_name=spec.priority_class_name,
                scheduler_name=spec.scheduler_name,
                image_pull_secrets=placement.pull_secrets(spec),
                affinity=placement.affinity(spec),
                topology_spread_constraints=spread(selector(workload.COMPONENT, name)),
                security_context=workload.pod_security(user=RAY_USER),
                init_containers=gates or None,
                containers=[container],
                volumes=[*workload.scratch(sizes, target), *model_volumes(weights), *placement.volumes(spec)],
            )
        ),
    )
