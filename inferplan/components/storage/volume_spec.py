"""The settings of stores that pods mount: an existing claim, an NFS export, and a directory on
every node of a pool.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, StringConstraints

from inferplan.components.naming import bounded, content_key
from inferplan.components.sources import VolumeClaim
from inferplan.components.spec import Bytes, DnsLabel, DnsName
from inferplan.components.storage.fields import StaticVolume, Store
from inferplan.kube.names import SYSTEM_FOLDERS

# EFS user guide, "Mounting without the EFS mount helper", read 2026-11. With `hard` a reader waits
# instead of getting an I/O error in the middle of a model; `noresvport` lets the client reconnect
# after the server moved.
RECOMMENDED_MOUNT_OPTIONS = (
    "nfsvers=4.1",
    "rsize=1048576",
    "wsize=1048576",
    "hard",
    "timeo=600",
    "retrans=2",
    "noresvport",
)
# A volume in these or in system folders would expose files of other pods, the kubelet or the system.
_KUBELET = ("/var/lib/kubelet", "/var/lib/containerd", "/var/log", "/var/run")


def _model_directory(path: str) -> str:
    parts = path.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(
            f"{path!r} is not an absolute path. Start at the root, without '.', '..' or double"
            " slashes."
        )
    clean = "/" + "/".join(parts)
    if (
        len(parts) < 2
        or parts[0] in SYSTEM_FOLDERS
        or any(clean == each or clean.startswith(f"{each}/") for each in _KUBELET)
    ):
        # The kubelet changes the group of the whole directory to the Job's, so it must contain
        # nothing else.
        raise ValueError(
            f"{path!r} may contain other files than models. Use a directory only for models, for"
            " example /mnt/k8s-disks/0/inferplan."
        )
    return clean


def _absolute_path(path: str) -> str:
    if path != "/" and any(part in ("", ".", "..") for part in path.rstrip("/").split("/")[1:]):
        raise ValueError(
            f"{path!r} is not the path of an export. Start at the root, without '.', '..' or double"
            " slashes."
        )
    return path.rstrip("/") or "/"


def _nfs_server(server: str) -> str:
    try:
        return str(ipaddress.ip_address(server))
    except ValueError:
        pass
    if not re.fullmatch(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", server
    ) or re.fullmatch(r"[0-9.]+", server):
        raise ValueError(
            f"{server!r} is not a server. Use a DNS name in lower case or an IP address."
        )
    return server


class VolumeStore(Store):
    """A store that pods mount, with a capacity that plans know."""

    is_volume: ClassVar[bool] = True

    if TYPE_CHECKING:
        capacity: Any

    @property
    def stated_capacity(self) -> str | None:
        return self.capacity


class ClaimStoreSpec(VolumeStore):
    """An existing PersistentVolumeClaim in the stack's namespace; it is only mounted."""

    kind: Literal["pvc"]
    claim_name: DnsName
    """The name of the claim. A preheat into it requires ReadWriteMany and write access for
    preheat.runAsUser.
    """
    capacity: Bytes | None = None
    """Capacity. If set, plans check that models fit; the preheat Job always checks."""

    stated: ClassVar[Mapping[str, Any]] = {**Store.stated, "claim_name": True}

    def source(self) -> VolumeClaim:
        # If the claim does not exist, pods fail to mount it.
        return VolumeClaim(name=self.claim_name, origin=f"pvc://{self.claim_name}")

    @property
    def location(self) -> str:
        return f"claim {self.claim_name}"

    @property
    def existing_claim(self) -> str:
        return self.claim_name


class NodeDiskStoreSpec(VolumeStore):
    """A directory on every node of a pool: each node gets its own copy and serves from it."""

    kind: Literal["nodeDisk"]
    pool: DnsLabel
    """The pool whose nodes have the directory. It needs a fixed number of nodes; models preheated
    here run on it.
    """
    path: Annotated[
        str,
        StringConstraints(pattern=r"^/[A-Za-z0-9._/-]*$", max_length=255),
        AfterValidator(_model_directory),
    ]
    """The directory, on a local disk of the node. If the stack does not create the nodes, it must
    exist and contain nothing else.
    """
    capacity: Bytes
    """Capacity on one node. Plans check that models fit."""

    creates_claim: ClassVar[bool] = True
    stated: ClassVar[Mapping[str, Any]] = {**Store.stated, "pool": True, "path": True}

    @property
    def location(self) -> str:
        return f"{self.path} on nodes of {self.pool}"

    @property
    def directory(self) -> str:
        return self.path

    @property
    def node_pool(self) -> str:
        return self.pool

    @property
    def volume_key(self) -> tuple[str, ...]:
        return (self.pool, self.path)


class NfsStoreSpec(VolumeStore):
    """A directory that an NFS server exports to all nodes."""

    kind: Literal["nfs"]
    server: Annotated[str, StringConstraints(max_length=253), AfterValidator(_nfs_server)]
    """The DNS name or IP address of the server."""
    path: Annotated[
        str,
        StringConstraints(pattern=r"^/[^\x00-\x20\\]*$", max_length=1024),
        AfterValidator(_absolute_path),
    ]
    """The exported directory. A preheat requires write access for preheat.runAsUser."""
    capacity: Bytes
    """Capacity. Plans check that models fit; Kubernetes does not enforce it."""
    mount_options: tuple[
        Annotated[str, StringConstraints(pattern=r"^[a-z_]+(=[A-Za-z0-9._:-]+)?$")], ...
    ] = RECOMMENDED_MOUNT_OPTIONS
    """NFS mount options. They replace all recommended options."""
    retain: Literal[True] = True
    """The files on the NFS server are always kept when the stack is destroyed."""

    creates_claim: ClassVar[bool] = True
    stated: ClassVar[Mapping[str, Any]] = {
        **Store.stated,
        **dict.fromkeys(("server", "path", "retain"), True),
    }

    def source(self) -> VolumeClaim:
        volume = self.volume()
        return VolumeClaim(name=bounded(volume.prefix, volume.key), origin=volume.origin)

    def volume(self) -> StaticVolume:
        spec = {
            "access_modes": ["ReadWriteMany"],
            "capacity": {"storage": self.capacity},
            "nfs": {"server": self.server, "path": self.path},
            "mount_options": list(self.mount_options),
        }
        return StaticVolume(
            component="NfsStore",
            origin=f"nfs://{self.server}{self.path}",
            prefix="nfs",
            key=content_key(*self.volume_key),
            spec=spec,
        )

    @property
    def directory(self) -> str:
        return self.path

    @property
    def location(self) -> str:
        return f"{self.server}:{self.path}"

    @property
    def volume_key(self) -> tuple[str, ...]:
        return (self.server, self.path, *self.mount_options)
