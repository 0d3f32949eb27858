"""The parts of a model server's pod that do not depend on the engine: placement, identity, probes, volumes, rollout.

An engine decides what runs; this module decides how it is probed, restricted and replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.fields import present
from components.handles import NodeTarget, SecretRef
from components.naming import selector
from components.pod_parts import USER, container_security, pod_security, spread
from components.serving import placement
from components.serving.demand import PRE_STOP_SECONDS, PROBE_PERIOD_SECONDS, Scratch, Timing, demand_of, scratch_of, share_of, timing
from components.serving.hardware import gaudi_environment, gaudi_mounts, gaudi_volumes, network_environment
from components.serving.served_model import ServedModel
from kube.names import EPHEMERAL_STORAGE
from kube.quantity import bytes_of, size_quantity

COMPONENT = "model"
CACHE = "/cache"
_WARMUP_SECONDS = {"nvidia": 300, "habana": 3600}


@dataclass(frozen=True, kw_only=True)
class Server:
    """The container of an engine: arguments, environment, secrets by reference, mounts, and the paths of its probes.

    `ports` holds `http` at least; `ready_path` answers once requests are served, `live_path` for as long as the process is sound.
    `command` is the program and `args` its arguments: what an image would start by itself is never relied on, nor its working directory.
    `files` are the engine's own small files by path, laid out in a volume that `mounts` refers to; without ports there are no probes.
    `labels` are further ones of its pods, `worker_args` the arguments of the other pods of a replica, where it is made of several.
    `group` owns the pod's volumes, and every container is a member of it.
    """

    image: str
    command: Sequence[str]
    args: Sequence[str]
    ports: Mapping[str, int]
    ready_path: str
    live_path: str
    env: Mapping[str, str]
    secret_env: Mapping[str, SecretRef]
    annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    volumes: Sequence[core.VolumeArgsDict] = ()
    mounts: Sequence[core.VolumeMountArgsDict] = ()
    init_containers: Sequence[core.ContainerArgsDict] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    worker_args: Sequence[str] = ()
    group: int = USER


def image_of(spec: ServedModel, engine: str, target: NodeTarget) -> str:
    """Return the image that `spec` names, else that of the accelerator table for `engine`.

    Raises ValueError when neither names one.
    """
    table = None if target.accelerator is None else target.accelerator.engine(engine).image
    image = spec.image or table
    if image is None:
        raise ValueError(f"no default image for {engine} on pool {target.pool}; name one under image")
    return image


def budget(spec: ServedModel, count: int, target: NodeTarget) -> Timing:
    """Return the model's time budgets; weights of unknown size count as much as the memory of all its accelerators can hold."""
    accelerator = target.accelerator
    memory = 0 if accelerator is None else accelerator.memory_bytes * count
    warmup = spec.warmup_seconds
    if warmup is None:
        warmup = _WARMUP_SECONDS["nvidia" if accelerator is None or not spec.warms_up else accelerator.vendor]
    return timing(
        model_bytes=bytes_of(spec.stored_files.size) if spec.stored_files and spec.stored_files.size else memory,
        load_mib_per_second=spec.load_mib_per_second,
        warmup_seconds=warmup,
        drain_seconds=spec.drain_seconds,
        replicas=spec.max_replicas if spec.scaling else spec.min_replicas,
    )


def resources_of(spec: ServedModel, count: int, target: NodeTarget) -> core.ResourceRequirementsArgsDict:
    """Return requests and limits of one replica: as written, else its share of the node in proportion to its accelerators."""
    demand = demand_of(spec, count, target)
    requests = {"cpu": demand["cpu"], "memory": demand["memory"]}
    limits = {"memory": demand["memory"]}
    for key, amount in demand.items():
        if key not in ("cpu", "memory"):
            requests[key] = amount
            # The volumes have limits; an image layer or a log must not end a server.
            limits |= {key: amount} if key != EPHEMERAL_STORAGE else {}
    return core.ResourceRequirementsArgsDict(requests=requests, limits=limits)


def deployment(name: str, spec: ServedModel, pod: core.PodTemplateSpecArgsDict, *, times: Timing) -> apps.DeploymentSpecArgsDict:
    """The Deployment of a model.

    In place, a replica's accelerators are freed before its successor asks for them, so a full pool never deadlocks.
    """
    surge = spec.rollout == "surge"
    return apps.DeploymentSpecArgsDict(
        replicas=spec.min_replicas,
        selector=meta.LabelSelectorArgsDict(match_labels=selector(COMPONENT, name)),
        strategy=apps.DeploymentStrategyArgsDict(
            type="RollingUpdate",
            rolling_update=apps.RollingUpdateDeploymentArgsDict(max_surge=1 if surge else 0, max_unavailable=0 if surge else 1),
        ),
        progress_deadline_seconds=times.progress_deadline,
        revision_history_limit=3,
        template=pod,
    )


def pod(
    name: str,
    spec: ServedModel,
    server: Server,
    *,
    target: NodeTarget,
    times: Timing,
    volumes: Sequence[core.VolumeArgsDict],
    service_account: pulumi.Input[str],
) -> core.PodTemplateSpecArgsDict:
    """Return the pod of one replica on the pool `target`."""
    labels = selector(COMPONENT, name)
    return core.PodTemplateSpecArgsDict(
        metadata=present(
            meta.ObjectMetaArgsDict(
                labels={**spec.labels, **server.labels, **labels}, annotations={**spec.annotations, **server.annotations} or None
            )
        ),
        spec=present(
            core.PodSpecArgsDict(
                service_account_name=service_account,
                automount_service_account_token=False,
                enable_service_links=False,
                termination_grace_period_seconds=times.grace,
                runtime_class_name=target.runtime_class,
                node_selector=dict(target.node_selector),
                tolerations=placement.tolerations(target, spec.tolerations),
                priority_class_name=spec.priority_class_name,
                scheduler_name=spec.scheduler_name,
                image_pull_secrets=placement.pull_secrets(spec),
                affinity=placement.affinity(spec),
                topology_spread_constraints=spread(labels),
                security_context=pod_security(group=server.group),
                init_containers=list(server.init_containers) or None,
                containers=[_container(spec, server, target=target, times=times)],
                volumes=[*scratch(replica_scratch(spec, spec.accelerators_per_pod, target), target), *volumes, *placement.volumes(spec)],
            )
        ),
    )


def _container(spec: ServedModel, server: Server, *, target: NodeTarget, times: Timing) -> core.ContainerArgsDict:
    startup, readiness, liveness = _probes(server, times) if server.ports else (None, None, None)
    # NVIDIA's container hook writes into the root file system when it adds the driver's libraries (kserve config-llm-template).
    read_only_root = target.accelerator is None or target.accelerator.vendor != "nvidia"
    return present(
        core.ContainerArgsDict(
            name="server",
            image=server.image,
            command=list(server.command),
            args=list(server.args),
            # An image's own directory may be closed to a user other than root (vllm-gaudi's is /root/scripts).
            working_dir=CACHE,
            env=environment(spec, server.env, server.secret_env, target=target),
            ports=[core.ContainerPortArgsDict(name=name, container_port=port) for name, port in server.ports.items()],
            resources=resources_of(spec, spec.accelerators_per_pod, target),
            startup_probe=startup,
            readiness_probe=readiness,
            liveness_probe=liveness,
            lifecycle=core.LifecycleArgsDict(
                pre_stop=core.LifecycleHandlerArgsDict(sleep=core.SleepActionArgsDict(seconds=PRE_STOP_SECONDS)),
            ),
            security_context=container_security(read_only_root=read_only_root),
            volume_mounts=[*scratch_mounts(target), *server.mounts, *placement.mounts(spec)],
        )
    )


def _probes(server: Server, times: Timing) -> tuple[core.ProbeArgsDict, core.ProbeArgsDict, core.ProbeArgsDict]:
    ready = core.HTTPGetActionArgsDict(path=server.ready_path, port="http")
    live = core.HTTPGetActionArgsDict(path=server.live_path, port="http")
    return (
        core.ProbeArgsDict(
            http_get=ready, period_seconds=PROBE_PERIOD_SECONDS, failure_threshold=times.startup_failures, timeout_seconds=5
        ),
        core.ProbeArgsDict(http_get=ready, period_seconds=5, failure_threshold=3, timeout_seconds=5),
        core.ProbeArgsDict(http_get=live, period_seconds=10, failure_threshold=6, timeout_seconds=10),
    )


def environment(
    spec: ServedModel, values: Mapping[str, str], secrets: Mapping[str, SecretRef], *, target: NodeTarget
) -> list[core.EnvVarArgsDict]:
    """Return the container's variables: those of every server, the engine's `values` and `secrets`, and the model's."""
    # A user without an entry in /etc/passwd has no name and no home; torch and Triton's compilers ask for both.
    base = {"HOME": CACHE, "USER": "inference", "XDG_CACHE_HOME": CACHE, "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/torchinductor"}
    clear = {**base, **gaudi_environment(spec.accelerators_per_pod, target), **network_environment(spec, target), **values}
    for name, value in spec.env.items():
        if isinstance(value, str):
            clear[name] = value
        else:
            clear.pop(name, None)
            secrets = {**secrets, name: SecretRef(name=value.secret_name, key=value.key)}
    references = [
        core.EnvVarArgsDict(
            name=name,
            value_from=core.EnvVarSourceArgsDict(secret_key_ref=core.SecretKeySelectorArgsDict(name=reference.name, key=reference.key)),
        )
        for name, reference in sorted(secrets.items())
    ]
    return [*(core.EnvVarArgsDict(name=name, value=value) for name, value in sorted(clear.items())), *references]


def replica_scratch(spec: ServedModel, count: int, target: NodeTarget) -> Scratch:
    """Return the volumes of a pod with `count` accelerators."""
    return scratch_of(spec, target, memory=demand_of(spec, count, target)["memory"], share=share_of(count, target))


def scratch(sizes: Scratch, target: NodeTarget) -> list[core.VolumeArgsDict]:
    """Return the pod's volumes: shared memory, temporary files, caches, and the logs of Gaudi's software."""
    return [
        core.VolumeArgsDict(name="shm", empty_dir=core.EmptyDirVolumeSourceArgsDict(medium="Memory", size_limit=size_quantity(sizes.shm))),
        core.VolumeArgsDict(name="tmp", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit=size_quantity(sizes.tmp))),
        core.VolumeArgsDict(name="cache", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit=size_quantity(sizes.cache))),
        *gaudi_volumes(target),
    ]


def scratch_mounts(target: NodeTarget) -> list[core.VolumeMountArgsDict]:
    """Return the mounts of the volumes of `scratch`."""
    return [
        core.VolumeMountArgsDict(name="shm", mount_path="/dev/shm"),  # noqa: S108 - the path that the engines' workers share memory at
        core.VolumeMountArgsDict(name="tmp", mount_path="/tmp"),  # noqa: S108 - a volume of the pod's own, not the node's directory
        core.VolumeMountArgsDict(name="cache", mount_path=CACHE),
        *gaudi_mounts(target),
    ]
