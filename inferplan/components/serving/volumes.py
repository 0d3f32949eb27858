"""Volumes of model pods: scratch space, the model's files, artifacts, and what the user adds; and
init containers that verify files.
"""

from collections.abc import Iterator, Mapping, Sequence

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import core
from inferplan.components.pod_parts import (
    claim_source,
    claim_volume,
    container_security,
    no_devices,
)
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.preheat.verify import ready_check
from inferplan.components.serving.demand import Scratch
from inferplan.components.serving.hardware import vendor_of
from inferplan.components.serving.pod_settings import PodSettings
from inferplan.components.sources import ModelMount, ModelSource
from inferplan.images.catalogue import default_image
from inferplan.kube.quantity import size_quantity

CACHE = "/cache"
MODELS = "/models"
ARTIFACTS = "/artifacts"
SHARE = "/share"
LIVE_FILES = "/live"
FILES_VOLUME = "files"
LIVE_VOLUME = "live"
MODEL_VOLUME = "model"


def scratch(sizes: Scratch, target: NodeTarget) -> list[core.VolumeArgsDict]:
    """Return the pod's own volumes: shared memory, temporary files, caches, and the logs of the
    vendor's software.
    """
    disks = {
        "tmp": size_quantity(sizes.tmp),
        "cache": size_quantity(sizes.cache),
        **dict.fromkeys(_log_directories(target), "1Gi"),
    }
    return [
        core.VolumeArgsDict(
            name="shm",
            empty_dir=core.EmptyDirVolumeSourceArgsDict(
                medium="Memory", size_limit=size_quantity(sizes.shm)
            ),
        ),
        *(
            core.VolumeArgsDict(
                name=name, empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit=size)
            )
            for name, size in disks.items()
        ),
    ]


def _log_directories(target: NodeTarget) -> dict[str, str]:
    """Return the directory of the vendor's logs by the name of its volume."""
    vendor = vendor_of(target)
    if vendor is None or vendor.log_directory is None:
        return {}
    return {f"{vendor.name}-logs": vendor.log_directory}


def scratch_mounts(spec: PodSettings, target: NodeTarget) -> list[core.VolumeMountArgsDict]:
    paths = {
        "shm": "/dev/shm",  # noqa: S108 - volumes of the pod's own, not the node's directories
        **spec.scratch_paths,
        **_log_directories(target),
    }
    return [core.VolumeMountArgsDict(name=name, mount_path=path) for name, path in paths.items()]


def extra_volumes(spec: PodSettings) -> list[core.VolumeArgsDict]:
    """Return the volumes that the user adds. The prefix keeps their names apart from ours."""
    made = []
    for name, each in sorted(spec.volumes.items()):
        volume = core.VolumeArgsDict(name=f"extra-{name}")
        if (claim := each.persistent_volume_claim) is not None:
            volume["persistent_volume_claim"] = claim_source(
                claim.claim_name, read_only=each.read_only
            )
        if each.config_map is not None:
            volume["config_map"] = core.ConfigMapVolumeSourceArgsDict(name=each.config_map.name)
        made.append(volume)
    return made


def extra_mounts(spec: PodSettings) -> list[core.VolumeMountArgsDict]:
    return [
        present(
            core.VolumeMountArgsDict(
                name=f"extra-{name}",
                mount_path=each.mount_path,
                sub_path=each.sub_path,
                read_only=each.read_only or None,
            )
        )
        for name, each in sorted(spec.volumes.items())
    ]


def model_volumes(weights: ModelMount | None) -> list[core.VolumeArgsDict]:
    """Return the volume of the model's mounted files, if it has files: read-only, unless a
    container writes to the mount's folder.

    A pod names a claim once: with two volumes of one claim the kubelet waits forever
    (kubernetes/kubernetes issues 51853 and 82526).
    """
    if weights is None:
        return []
    return [claim_volume(MODEL_VOLUME, weights.claim, read_only=weights.folder is None)]


def read_only_mount(
    volume: str, path: str, sub_path: str | None = None
) -> core.VolumeMountArgsDict:
    return present(
        core.VolumeMountArgsDict(name=volume, mount_path=path, sub_path=sub_path, read_only=True)
    )


def model_mounts(path: str, weights: ModelMount | None) -> list[core.VolumeMountArgsDict]:
    return (
        [] if weights is None else [read_only_mount(MODEL_VOLUME, path, weights.sub_path or None)]
    )


def key_of(path: str) -> str:
    """Return the ConfigMap key of the file at `path`: keys contain no slash, and these paths no two
    dots in a row.
    """
    return path.replace("/", "..")


def config_map_volume(
    volume: str, name: pulumi.Input[str], paths: Sequence[str]
) -> core.VolumeArgsDict:
    """Return a volume with the files of the ConfigMap `name` at their `paths`."""
    items = [core.KeyToPathArgsDict(key=key_of(path), path=path) for path in sorted(paths)]
    return core.VolumeArgsDict(
        name=volume, config_map=core.ConfigMapVolumeSourceArgsDict(name=name, items=items)
    )


def artifact_path(name: str) -> str:
    return f"{ARTIFACTS}/{name}"


def artifact_mounts(artifacts: Mapping[str, ModelMount]) -> list[core.VolumeMountArgsDict]:
    """Return the mounts of `artifacts` from the volume of the weights, in the order of their names."""
    return [
        read_only_mount(MODEL_VOLUME, artifact_path(name), mount.sub_path)
        for name, mount in sorted(artifacts.items())
    ]


def artifact_gates(
    artifacts: Mapping[str, ModelMount], preheat: PreheatSpec | None
) -> Iterator[core.ContainerArgsDict]:
    """Yield an init container for each artifact that ends with an error unless its files are marked
    READY.
    """
    for name, mount in zip(sorted(artifacts), artifact_mounts(artifacts), strict=True):
        yield _ready_gate(f"verified-{name}", mount, preheat)


def weights_gate(
    weights: ModelMount | ModelSource | None,
    mounts: Sequence[core.VolumeMountArgsDict],
    preheat: PreheatSpec | None,
) -> Iterator[core.ContainerArgsDict]:
    """Yield an init container that ends with an error unless the mounted weights are marked READY;
    none if files have no mark.
    """
    if isinstance(weights, ModelMount) and weights.marked:
        mount = next(
            each
            for each in mounts
            if each["name"] == MODEL_VOLUME and each.get("sub_path") == weights.sub_path
        )
        yield _ready_gate("verified", mount, preheat)


def _ready_gate(
    name: str, mount: core.VolumeMountArgsDict, preheat: PreheatSpec | None
) -> core.ContainerArgsDict:
    """Return the init container that waits for the directory of `mount`. It mounts the whole
    volume: a kubelet makes a missing subPath as root, before the preheat Job can make it.
    """
    path, folder = str(mount["mount_path"]), mount.get("sub_path")
    whole = read_only_mount(str(mount["name"]), path)
    return gate(name, ready_check(f"{path}/{folder}" if folder else path), whole, preheat)


def gate(
    name: str, command: Sequence[str], mount: core.VolumeMountArgsDict, preheat: PreheatSpec | None
) -> core.ContainerArgsDict:
    """Return the init container `name` that runs `command` with one `mount`; if the command fails,
    the server does not start.
    """
    return core.ContainerArgsDict(
        name=name,
        image=(preheat.image if preheat is not None else None) or default_image("preheat"),
        command=list(command),
        working_dir="/",
        env=no_devices(),
        resources=core.ResourceRequirementsArgsDict(
            requests={"cpu": "10m", "memory": "32Mi"}, limits={"memory": "32Mi"}
        ),
        security_context=container_security(read_only_root=True),
        # The message appears in the pod's status, which people read first, and not in the log of a
        # container that is gone.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[mount],
    )
