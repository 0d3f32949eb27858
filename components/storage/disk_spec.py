"""Disks that a stack mounts but does not create: an existing claim, and a directory on every node of a pool.

The directory exists already, or is created at boot if the stack creates the nodes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints

from components.spec import Bytes, DnsLabel, DnsName, Spec

# System directories: a volume there would expose files of other pods, the kubelet or the operating system.
_SYSTEM = ("bin", "boot", "dev", "etc", "home", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr")
_KUBELET = ("/var/lib/kubelet", "/var/lib/containerd", "/var/log", "/var/run")


def _model_directory(path: str) -> str:
    parts = path.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is not an absolute path. Start at the root, without '.', '..' or double slashes.")
    clean = "/" + "/".join(parts)
    if len(parts) < 2 or parts[0] in _SYSTEM or any(clean == each or clean.startswith(f"{each}/") for each in _KUBELET):
        # The kubelet changes the group of the whole directory to the Job's, so it must contain nothing else.
        raise ValueError(
            f"{path!r} may contain other files than models. Use a directory only for models, for example /mnt/k8s-disks/0/inferplan."
        )
    return clean


class ClaimStoreSpec(Spec):
    """An existing PersistentVolumeClaim in the stack's namespace; it is only mounted."""

    kind: Literal["pvc"]
    claim_name: DnsName
    """The name of the claim. A preheat into it requires ReadWriteMany and write access for preheat.runAsUser."""
    capacity: Bytes | None = None
    """Capacity. If set, plans check that models fit; the preheat Job always checks."""

    @property
    def location(self) -> str:
        """The location, for messages and tables."""
        return f"claim {self.claim_name}"


class NodeDiskStoreSpec(Spec):
    """A directory on every node of a pool: each node gets its own copy and serves from it."""

    kind: Literal["nodeDisk"]
    pool: DnsLabel
    """The pool whose nodes have the directory. It needs a fixed number of nodes; models preheated here run on it."""
    path: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]*$", max_length=255), AfterValidator(_model_directory)]
    """The directory, on a local disk of the node. If the stack does not create the nodes, it must exist and contain nothing else."""
    capacity: Bytes
    """Capacity on one node. Plans check that models fit."""

    @property
    def location(self) -> str:
        """The location, for messages and tables."""
        return f"{self.path} on nodes of {self.pool}"
