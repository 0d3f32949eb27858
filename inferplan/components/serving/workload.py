"""The pods of model servers, the same for every engine: placement, identity, probes, volumes,
rollout.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget, SecretRef
from inferplan.components.kubernetes import core, meta
from inferplan.components.naming import labels, selector
from inferplan.components.pod_parts import (
    USER,
    container_security,
    from_pod,
    pod_security,
    spread,
    tolerations_of,
)
from inferplan.components.serving.demand import (
    PRE_STOP_SECONDS,
    PROBE_PERIOD_SECONDS,
    Timing,
    demand_of,
    replica_scratch,
    timing,
)
from inferplan.components.serving.engine import Site
from inferplan.components.serving.hardware import (
    default_image_of,
    device_environment,
    network_environment,
    vendor_of,
)
from inferplan.components.serving.model_parts import PodModel, SizedModel, TimedModel
from inferplan.components.serving.pod_settings import PodSettings
from inferplan.components.serving.volumes import (
    CACHE,
    extra_mounts,
    extra_volumes,
    scratch,
    scratch_mounts,
)
from inferplan.components.sources import ModelMount, ModelSource
from inferplan.kube.names import EPHEMERAL_STORAGE, MODEL_REVISION
from inferplan.kube.quantity import bytes_of

COMPONENT = "model"
PRE_STOP = core.LifecycleArgsDict(
    pre_stop=core.LifecycleHandlerArgsDict(
        sleep=core.SleepActionArgsDict(seconds=PRE_STOP_SECONDS)
    ),
)
_WARMUP_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Server:
    """The container of an engine: arguments, environment, secrets by reference, mounts, and the
    paths of its probes.

    `ports` has at least `http`; without ports there are no probes. `ready_path` answers once
    requests are served, `live_path` while the process is sound. `command` is the program and `args`
    its arguments, because the entry points and working directories of images differ. `files` are
    the engine's own small files by path, in a volume that `mounts` refers to. `pod_env` are variables
    with the field of the pod that has their value. `labels` are further
    labels of the pods, `worker_args` the arguments of the other pods of a replica of several.
    `group` owns the pod's volumes, and every container is in it.
    """

    image: str
    command: Sequence[str]
    args: Sequence[str]
    ports: Mapping[str, int]
    ready_path: str
    live_path: str
    env: Mapping[str, str]
    secret_env: Mapping[str, SecretRef]
    pod_env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    volumes: Sequence[core.VolumeArgsDict] = ()
    mounts: Sequence[core.VolumeMountArgsDict] = ()
    init_containers: Sequence[core.ContainerArgsDict] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    worker_args: Sequence[str] = ()
    group: int = USER


def image_of(spec: PodModel, target: NodeTarget) -> str:
    """Return the image that `spec` names, else that of the accelerator table for its engine. Raises
    ValueError if neither names one.
    """
    image = spec.image or default_image_of(spec, target)
    if image is None:
        raise ValueError(
            f"no default image for {spec.engine} on pool {target.pool}. Name one under image."
        )
    return image


def object_meta(
    name: str,
    site: Site,
    *,
    called: str | None = None,
    queued: bool = False,
    annotations: Mapping[str, pulumi.Input[str]] | None = None,
) -> meta.ObjectMetaArgsDict:
    """Return the metadata of an object of model `name`, which has the same name unless it is
    `called` otherwise.
    """
    own = {**labels(COMPONENT, name), **(site.queue_labels if queued else {})}
    return present(
        meta.ObjectMetaArgsDict(
            name=called or name,
            namespace=site.namespace,
            labels=own,
            annotations=annotations or None,
        )
    )


def budget(
    spec: TimedModel, target: NodeTarget, weights: ModelMount | ModelSource | None = None
) -> Timing:
    """Return the model's time budgets; weights of unknown size count as much as the memory of all
    its accelerators can hold. Weights in an image are pulled first.
    """
    accelerator = target.accelerator
    memory = (
        0
        if accelerator is None
        else accelerator.memory_bytes * spec.accelerators_per_pod * spec.pods
    )
    warmup = spec.warmup_seconds
    if warmup is None:
        warmup = _WARMUP_SECONDS
        if accelerator is not None and spec.warms_up:
            warmup = accelerator.vendor.warmup_seconds
    size = (
        bytes_of(spec.stored_files.size) if spec.stored_files and spec.stored_files.size else memory
    )
    is_image = isinstance(weights, ModelMount) and weights.claim.is_image
    return timing(
        model_bytes=size,
        load_mib_per_second=spec.load_mib_per_second,
        warmup_seconds=warmup,
        drain_seconds=spec.drain_seconds,
        replicas=spec.max_replicas if spec.scaling else spec.min_replicas,
        pulled=size if is_image else 0,
    )


def resources_of(
    spec: SizedModel, count: int, target: NodeTarget
) -> core.ResourceRequirementsArgsDict:
    """Return requests and limits of a pod with `count` accelerators: as written, else its share of
    the node in proportion to them.
    """
    demand = demand_of(spec, count, target)
    # The volumes on disk have limits of their own; an image layer or a log must not end a server.
    limits = {
        key: amount for key, amount in demand.items() if key not in ("cpu", EPHEMERAL_STORAGE)
    }
    return core.ResourceRequirementsArgsDict(requests=demand, limits=limits)


def server_pod(
    name: str,
    spec: PodModel,
    server: Server,
    *,
    target: NodeTarget,
    times: Timing,
    service_account: pulumi.Input[str],
) -> core.PodTemplateSpecArgsDict:
    pod = core.PodSpecArgsDict(
        service_account_name=service_account,
        automount_service_account_token=False,
        termination_grace_period_seconds=times.grace,
        security_context=pod_security(group=server.group),
        init_containers=list(server.init_containers) or None,
        containers=[_container(spec, server, target=target, times=times)],
        volumes=[
            *scratch(replica_scratch(spec, spec.accelerators_per_pod, target), target),
            *server.volumes,
            *extra_volumes(spec),
        ],
    )
    return placed(name, spec, target, pod, labels=server.labels, annotations=server.annotations)


def placed(
    name: str,
    spec: PodModel,
    target: NodeTarget,
    pod: core.PodSpecArgsDict,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, pulumi.Input[str]],
) -> core.PodTemplateSpecArgsDict:
    """Return the template of `pod`, placed as `spec` and the pool `target` say."""
    own = selector(COMPONENT, name)
    # Generated input types read plain structures in the API's spelling as well, but say so in no
    # annotation.
    affinity = cast("core.AffinityArgsDict | None", spec.affinity.rendered() or None)
    # A preheat copies each revision into its own directory, whose name is in the pod. Nothing else
    # shows the revision of what a store has.
    direct = spec.weights.revision if spec.weights is not None and spec.preheat is None else None
    called = {
        **spec.annotations,
        **({} if direct is None else {MODEL_REVISION: direct}),
        **annotations,
    }
    metadata = meta.ObjectMetaArgsDict(
        labels={**spec.labels, **labels, **own}, annotations=called or None
    )
    spec_of_pod = core.PodSpecArgsDict(
        **pod,
        enable_service_links=False,
        runtime_class_name=target.runtime_class,
        node_selector=dict(target.node_selector),
        tolerations=tolerations(spec, target),
        priority_class_name=spec.priority_class_name,
        scheduler_name=spec.scheduler_name,
        image_pull_secrets=pull_secrets(spec),
        affinity=affinity,
        topology_spread_constraints=spread(own),
    )
    return core.PodTemplateSpecArgsDict(metadata=present(metadata), spec=present(spec_of_pod))


def _container(
    spec: PodModel, server: Server, *, target: NodeTarget, times: Timing
) -> core.ContainerArgsDict:
    vendor = vendor_of(target)
    startup, readiness, liveness = _probes(server, times) if server.ports else (None, None, None)
    return present(
        core.ContainerArgsDict(
            name="server",
            image=server.image,
            command=list(server.command),
            args=list(server.args),
            # An image's own directory may be closed to a user other than root (vllm-gaudi's is
            # /root/scripts).
            working_dir=spec.scratch_paths["cache"],
            env=[
                *environment(spec, server.env, server.secret_env, target=target),
                *(from_pod(name, path) for name, path in server.pod_env.items()),
            ],
            ports=container_ports(server.ports),
            resources=resources_of(spec, spec.accelerators_per_pod, target),
            startup_probe=startup,
            readiness_probe=readiness,
            liveness_probe=liveness,
            lifecycle=PRE_STOP,
            security_context=container_security(read_only_root=not (vendor and vendor.writes_root)),
            # `inferplan up`, `status` and `kubectl describe pod` show the last line of the log.
            termination_message_policy="FallbackToLogsOnError",
            volume_mounts=[*scratch_mounts(spec, target), *server.mounts, *extra_mounts(spec)],
        )
    )


def container_ports(ports: Mapping[str, int]) -> list[core.ContainerPortArgsDict]:
    return [
        core.ContainerPortArgsDict(name=name, container_port=port) for name, port in ports.items()
    ]


def tolerations(spec: PodSettings, target: NodeTarget) -> list[core.TolerationArgsDict]:
    """Return one toleration for each taint of the pool, by exact value, and those of the model."""
    written = (
        present(each.model_dump() | {"value": each.value or None}) for each in spec.tolerations
    )
    return [
        *tolerations_of(target.taints),
        *(cast("core.TolerationArgsDict", each) for each in written),
    ]


def pull_secrets(spec: PodSettings) -> list[core.LocalObjectReferenceArgsDict] | None:
    return [
        core.LocalObjectReferenceArgsDict(name=each.name) for each in spec.image_pull_secrets
    ] or None


def _probes(server: Server, times: Timing) -> list[core.ProbeArgsDict]:
    ready, live = server.ready_path, server.live_path
    rows = (
        (ready, PROBE_PERIOD_SECONDS, times.startup_failures, 5),
        (ready, 5, 3, 5),
        (live, 10, 6, 10),
    )
    return [
        core.ProbeArgsDict(
            http_get=core.HTTPGetActionArgsDict(path=path, port="http"),
            period_seconds=period,
            failure_threshold=failures,
            timeout_seconds=timeout,
        )
        for path, period, failures, timeout in rows
    ]


def environment(
    spec: PodModel,
    values: Mapping[str, str],
    secrets: Mapping[str, SecretRef],
    *,
    target: NodeTarget,
) -> list[core.EnvVarArgsDict]:
    """Return the container's variables: those of every server, the engine's `values` and `secrets`,
    and the model's.
    """
    # A user without an entry in /etc/passwd has no name and no home; torch and Triton's compilers
    # read both.
    base = {
        "HOME": CACHE,
        "USER": "inference",
        "XDG_CACHE_HOME": CACHE,
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/torchinductor",
    }
    plain = {
        **base,
        **device_environment(spec.accelerators_per_pod, target),
        **network_environment(spec, target),
        **values,
        **spec.egress.environment(),
    }
    if spec.scratch is not None:
        # Ray reads its own variable first.
        moved = {
            name: re.sub(rf"^{CACHE}(?=/|$)", spec.scratch_paths["cache"], value)
            for name, value in plain.items()
        }
        plain = {**moved, **dict.fromkeys(("TMPDIR", "RAY_TMPDIR"), spec.scratch_paths["tmp"])}
    for name, value in spec.env.items():
        if isinstance(value, str):
            plain[name] = value
        else:
            plain.pop(name, None)
            secrets = {**secrets, name: SecretRef(name=value.secret_name, key=value.key)}
    references = [
        core.EnvVarArgsDict(
            name=name,
            value_from=core.EnvVarSourceArgsDict(
                secret_key_ref=core.SecretKeySelectorArgsDict(
                    name=reference.name, key=reference.key
                )
            ),
        )
        for name, reference in sorted(secrets.items())
    ]
    return [
        *(core.EnvVarArgsDict(name=name, value=value) for name, value in sorted(plain.items())),
        *references,
    ]
