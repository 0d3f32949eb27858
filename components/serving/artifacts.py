"""How a server gets the artifacts beside its weights: mounted read-only, each behind a look for its READY mark.

It asks the model's own volume for further directories; artifacts lie on the same share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pulumi_kubernetes.core import v1 as core

from components.handles import ModelMount
from components.preheat.spec import PreheatSpec
from components.preheat.verify import ready_check
from components.serving import workload
from components.serving.gates import gate

ARTIFACTS = "/artifacts"


def artifact_path(name: str, path: str = "") -> str:
    """Where a server finds an artifact, or a path inside of it."""
    return f"{ARTIFACTS}/{name}/{path}".rstrip("/")


def artifact_mounts(artifacts: Mapping[str, ModelMount], volume: str) -> list[core.VolumeMountArgs]:
    """Mounts of `artifacts` from `volume`, in the order of their names."""
    return [
        core.VolumeMountArgs(name=volume, mount_path=artifact_path(name), sub_path=mount.sub_path, read_only=True)
        for name, mount in sorted(artifacts.items())
    ]


def artifact_gates(artifacts: Mapping[str, ModelMount], volume: str, preheat: PreheatSpec | None) -> Iterator[core.ContainerArgs]:
    """An init container for each artifact that ends with an error unless its files are marked READY."""
    for name, mount in zip(sorted(artifacts), artifact_mounts(artifacts, volume), strict=True):
        yield gate(f"verified-{name}", ready_check(artifact_path(name)), mount, preheat)


def with_artifacts(
    server: workload.Server, artifacts: Mapping[str, ModelMount], volume: str, preheat: PreheatSpec | None
) -> workload.Server:
    """`server` with `artifacts` mounted from `volume`, which it has already, and verified before it starts."""
    mounts = (*server.mounts, *artifact_mounts(artifacts, volume))
    return replace(server, mounts=mounts, init_containers=(*artifact_gates(artifacts, volume, preheat), *server.init_containers))
