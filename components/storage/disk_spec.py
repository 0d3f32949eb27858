"""Disks that a stack only mounts: a claim that exists, and a directory of every node of a pool.

Nothing here makes a disk. A node's directory exists already, or is made at boot where the stack makes the nodes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints

from components.spec import Bytes, DnsLabel, DnsName, Spec

# Directories of the system: a volume there would hand a pod what other pods, the kubelet or the machine itself live on.
_SYSTEM = ("bin", "boot", "dev", "etc", "home", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr")
_KUBELET = ("/var/lib/kubelet", "/var/lib/containerd", "/var/log", "/var/run")


def _own_directory(path: str) -> str:
    parts = path.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is not a plain path; write it from the root, without '.', '..' or double slashes")
    clean = "/" + "/".join(parts)
    if len(parts) < 2 or parts[0] in _SYSTEM or any(clean == each or clean.startswith(f"{each}/") for each in _KUBELET):
        # The kubelet gives the whole directory to the Job's group, so it must hold nothing else.
        raise ValueError(f"{path!r} holds more than models; name a directory of their own, such as /mnt/k8s-disks/0/inferplan")
    return clean


class ClaimStoreSpec(Spec):
    """A PersistentVolumeClaim that exists in the inference namespace; it is mounted and never changed."""

    kind: Literal["pvc"]
    claim_name: DnsName
    """The claim's name. To be preheated into it must be ReadWriteMany and writable for the user that preheat names (runAsUser)."""
    capacity: Bytes | None = None
    """How much fits; plans check models against it where it is stated, the Job checks in any case."""

    @property
    def location(self) -> str:
        """Where it is, as people write it."""
        return f"claim {self.claim_name}"


class NodeDiskStoreSpec(Spec):
    """A directory on every node of a pool: each node gets a copy of its own, and serves from it."""

    kind: Literal["nodeDisk"]
    pool: DnsLabel
    """The pool whose nodes hold the directory, of a fixed number of nodes; models preheated here run on it."""
    path: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]*$", max_length=255), AfterValidator(_own_directory)]
    """The directory, on a disk of the node's own. Where the stack does not make the nodes, it must exist and hold nothing else."""
    capacity: Bytes
    """How much fits on one node; plans check models against it."""

    @property
    def location(self) -> str:
        """Where it is, as people write it."""
        return f"{self.path} on nodes of {self.pool}"
