"""How a server gets its files: mounted read-only, behind init containers that end with an error until the files are complete.

The init containers run in the small image of the preheat, with no device and a read-only root: in an engine's image they would claim
accelerators. Artifacts are further directories on the volume of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pulumi_kubernetes.core import v1 as core

from components.handles import ModelMount
from components.pod_parts import no_devices
from components.preheat.spec import PreheatSpec
from components.preheat.verify import ready_check
from components.serving import workload
from images.catalogue import default_image

ARTIFACTS = "/artifacts"


def gate(name: str, command: Sequence[str], mount: core.VolumeMountArgsDict, preheat: PreheatSpec | None) -> core.ContainerArgsDict:
    """Return the init container `name` that runs `command` with one `mount`; if the command fails, the server does not start."""
    return core.ContainerArgsDict(
        name=name,
        image=(preheat.image if preheat is not None else None) or default_image("preheat"),
        command=list(command),
        working_dir="/",
        env=no_devices(),
        resources=core.ResourceRequirementsArgsDict(requests={"cpu": "10m", "memory": "32Mi"}, limits={"memory": "32Mi"}),
        security_context=workload.container_security(read_only_root=True),
        # The message appears in the pod's status, which people read first, and not in the log of a container that is gone.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[mount],
    )


def artifact_path(name: str, path: str = "") -> str:
    """Return the path of an artifact, or of a file in it, inside containers."""
    return f"{ARTIFACTS}/{name}/{path}".rstrip("/")


def artifact_mounts(artifacts: Mapping[str, ModelMount], volume: str) -> list[core.VolumeMountArgsDict]:
    """Return the mounts of `artifacts` from `volume`, in the order of their names."""
    return [
        core.VolumeMountArgsDict(name=volume, mount_path=artifact_path(name), sub_path=mount.sub_path, read_only=True)
        for name, mount in sorted(artifacts.items())
    ]


def artifact_gates(artifacts: Mapping[str, ModelMount], volume: str, preheat: PreheatSpec | None) -> Iterator[core.ContainerArgsDict]:
    """Yield an init container for each artifact that ends with an error unless its files are marked READY."""
    for name, mount in zip(sorted(artifacts), artifact_mounts(artifacts, volume), strict=True):
        yield gate(f"verified-{name}", ready_check(artifact_path(name)), mount, preheat)


def with_artifacts(
    server: workload.Server, artifacts: Mapping[str, ModelMount], volume: str, preheat: PreheatSpec | None
) -> workload.Server:
    """Return `server` with `artifacts` of its `volume` mounted, and verified before it starts."""
    mounts = (*server.mounts, *artifact_mounts(artifacts, volume))
    return replace(server, mounts=mounts, init_containers=(*artifact_gates(artifacts, volume, preheat), *server.init_containers))
