"""The container of a model server, the same for every engine: image, variables, resources, probes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget, SecretRef
from inferplan.components.kubernetes import core
from inferplan.components.pod_parts import USER, container_security, from_pod
from inferplan.components.serving.claims import CLAIM
from inferplan.components.serving.demand import (
    PRE_STOP_SECONDS,
    PROBE_PERIOD_SECONDS,
    Timing,
    demand_of,
)
from inferplan.components.serving.hardware import (
    default_image_of,
    device_environment,
    network_environment,
    vendor_of,
)
from inferplan.components.serving.model_parts import PodModel, SizedModel
from inferplan.components.serving.volumes import CACHE, extra_mounts, scratch_mounts
from inferplan.kube.names import EPHEMERAL_STORAGE

PRE_STOP = core.LifecycleArgsDict(
    pre_stop=core.LifecycleHandlerArgsDict(
        sleep=core.SleepActionArgsDict(seconds=PRE_STOP_SECONDS)
    ),
)


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
    `live_files` are files in another volume that change while pods run: a change restarts none.
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
    live_files: Mapping[str, str] = field(default_factory=dict)
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


def resources_of(
    spec: SizedModel, count: int, target: NodeTarget
) -> core.ResourceRequirementsArgsDict:
    """Return requests and limits of a pod with `count` accelerators: as written, else its share of
    the node in proportion to them.
    """
    demand = demand_of(spec, count, target)
    claims = None
    if target.accelerator is not None and demand.pop(target.accelerator.device_class or "", ""):
        claims = [core.ResourceClaimArgsDict(name=CLAIM)]
    # The volumes on disk have limits of their own; an image layer or a log must not end a server.
    limits = {
        key: amount for key, amount in demand.items() if key not in ("cpu", EPHEMERAL_STORAGE)
    }
    return present(core.ResourceRequirementsArgsDict(requests=demand, limits=limits, claims=claims))


def server_container(
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
