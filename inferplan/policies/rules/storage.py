"""Volumes, storage classes and mounts of model stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Severity,
    Violations,
    is_set,
    parameter,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from inferplan.policies.subjects.workloads import claims_of, engines_of

STORAGE_CLASS, VOLUME = "kubernetes:storage.k8s.io:StorageClass", "kubernetes:core:PersistentVolume"
DISKS = ("ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com", "kubernetes.io/aws-ebs")
SHARES = ("efs.csi.aws.com",)
# Drivers for volumes in a pod that mount no path of the node: secrets, certificates and identities.
CSI_DRIVERS = [
    *("secrets-store.csi.k8s.io", "csi.cert-manager.io", "spiffe.csi.cert-manager.io", "csi.spiffe.io", "inline.storage.kubernetes.io"),
    *("gcsfuse.csi.storage.gke.io", "file.csi.azure.com", "ebs.csi.aws.com", "efs.csi.aws.com", "s3.csi.aws.com"),
]
IN_TRANSIT = "encryptInTransit"
RESTRICTED_TYPES = frozenset(
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret", "hostPath"]
)


@stack_rule(Severity.HIGH, "inference; NSA-CISA: immutable file systems")
def stack_require_read_only_weights(stack: Stack, _: Parameters) -> Violations:
    """Servers cannot change shared weights.
    Why: A compromised server could replace the weights that all replicas load at their next start.
    Remedy: set readOnly: true on the server's persistentVolumeClaim or on each of its volumeMounts; to write other files, mount a separate
    subPath without weights.
    """
    job_claims: set[tuple[str, str]] = set()
    weight_folders: set[tuple[tuple[str, str], str]] = set()
    for job in stack.of("kubernetes:batch:Job"):
        with stack.unreadable:
            job_claims |= {claim for pod in job.parts(PODS) for claim in claims_of(pod, writing=True)}
    for pod in engines_of(stack):
        with stack.unreadable:
            volumes = _volumes_with_claims(pod, job_claims)
            weight_folders |= {(claim, folder) for claim, volume in volumes for folder in _folders(pod, volume, read_only=True)}
    for pod in engines_of(stack):
        with stack.unreadable:
            for claim, volume in _volumes_with_claims(pod, job_claims):
                weights = {folder for other, folder in weight_folders if other == claim}
                folders = _folders(pod, volume, read_only=False)
                if any(not weights or any(_overlap(folder, other) for other in weights) for folder in folders):
                    yield violation(volume, "contains weights that a Job writes, but the server can write them too")


def _volumes_with_claims(pod: PodTemplate, claims: set[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Field]]:
    """The volumes of a pod that use one of `claims`, each with its claim. Raises FieldError."""
    namespace = pod.resource.namespace
    for volume in pod.at("volumes").each():
        claim = (namespace, volume.at("persistentVolumeClaim", "claimName").text())
        if claim in claims:
            yield claim, volume


def _folders(pod: PodTemplate, volume: Field, *, read_only: bool) -> list[str]:
    """The directories of a volume that the pod mounts read-only, or else to write; "" is the whole volume. Raises FieldError."""
    name, claim_is_read_only = volume.at("name").text(), bool(volume.at("persistentVolumeClaim", "readOnly").flag())
    mounts = (mount for container in pod.containers for mount in container.at("volumeMounts").each() if mount.at("name").text() == name)
    matching = (each for each in mounts if (claim_is_read_only or bool(each.at("readOnly").flag())) == read_only)
    # A path with variables can be any directory.
    return ["" if mount.at("subPathExpr").text() else mount.at("subPath").text().strip("/") for mount in matching]


def _overlap(one: str, other: str) -> bool:
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)


@resource_rule(objects(VOLUME), Severity.HIGH, "CIS EKS 4.2.9; NSA-CISA: hostPath volumes")
def volume_disallow_host_path(volume: Resource, _: Parameters) -> Violations:
    """No PersistentVolume is a path on the node.
    Why: Through a claim, a restricted pod could mount files of the node although hostPath is forbidden. Another node also has other
    weights.
    Remedy: use csi or nfs, or spec.local with a nodeAffinity for the disk of one node.
    """
    yield from violations(volume.at("spec", "hostPath"), is_set, "is a path on the node")


@resource_rule(objects(STORAGE_CLASS, VOLUME), Severity.HIGH, "Security Hub EC2.7; CKV_AWS_3; CIS EKS 4.4")
def volume_require_encryption(resource: Resource, _: Parameters) -> Violations:
    """Disks and shares behind claims are encrypted.
    Why: They hold weights and cached prompts. The driver encrypts only if the StorageClass says so.
    Remedy: set parameters.encrypted: "true" in a StorageClass of EBS, with your own kmsKeyId; keep encryptInTransit of EFS at its default,
    or set it to "true".
    """
    if resource.short_kind == "StorageClass":
        driver, parameters = resource.at("provisioner").text(), resource.at("parameters")
        if driver in DISKS and parameters.at("encrypted").value not in (True, "true"):
            yield violation(parameters.at("encrypted"), "is not true")
    else:
        driver, parameters = resource.at("spec", "csi", "driver").text(), resource.at("spec", "csi", "volumeAttributes")
    if driver in SHARES and parameters.at(IN_TRANSIT).value in (False, "false"):
        yield violation(parameters.at(IN_TRANSIT), "is false")


@parameter("options", ["nfsvers", "hard", "noresvport"], "Mount options, or their names, that every NFS volume must set")
@resource_rule(objects(VOLUME), Severity.MEDIUM)
def volume_require_nfs_options(volume: Resource, parameters: Parameters) -> Violations:
    """NFS volumes set their mount options.
    Why: The defaults of NFS clients are slow, and hang in different ways on different nodes.
    Remedy: set mountOptions: [nfsvers=4.1, rsize=1048576, wsize=1048576, hard, timeo=600, retrans=2, noresvport].
    """
    if volume.at("spec", "nfs").absent:
        return
    options = volume.at("spec", "mountOptions").texts()
    for name in parameters["options"]:
        if not any(option == name or option.startswith(f"{name}=") for option in options):
            yield violation(volume.at("spec", "mountOptions"), f"does not include {name}")


@resource_rule(objects(VOLUME), Severity.HIGH)
def volume_require_retain(volume: Resource, _: Parameters) -> Violations:
    """Volumes of models are kept when their claims are deleted.
    Why: With another reclaim policy than Retain, deleting a claim deletes the weights.
    Remedy: set persistentVolumeReclaimPolicy: Retain.
    """
    policy = volume.at("spec", "persistentVolumeReclaimPolicy")
    yield from violations(policy, lambda field: field.text() not in ("", "Retain"), "is not Retain")


@resource_rule(PODS, Severity.CRITICAL, "PSS baseline: HostPath Volumes; CIS EKS 4.2.9")
def pod_disallow_host_path(pod: PodTemplate, _: Parameters) -> Violations:
    """No volume is a path on the node.
    Why: Such a path outlives the pod, and lets it read files of other pods and of the kubelet.
    Remedy: use a PersistentVolumeClaim, or an emptyDir with a sizeLimit.
    """
    yield from violations(pod.select("volumes", "*", "hostPath"), is_set, "mounts a path on the node")


@parameter("csiDrivers", CSI_DRIVERS, "CSI drivers that pods may use directly, without a PersistentVolume")
@resource_rule(PODS, Severity.HIGH, "PSS restricted: Volume Types")
def pod_restrict_volume_types(pod: PodTemplate, parameters: Parameters) -> Violations:
    """Volumes are of the types that restricted pods may use.
    Why: With an inline NFS or iSCSI volume, anyone who can create a pod can mount any share. An administrator creates each
    PersistentVolume.
    Remedy: use configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected or secret.
    """
    for volume in pod.at("volumes").each():
        for kind, field in volume.entries():
            # pod-disallow-host-path checks hostPath.
            if kind != "name" and kind not in RESTRICTED_TYPES and not field.absent:
                yield violation(field, "is a volume type that the restricted Pod Security Standard forbids")
            if kind == "csi" and field.at("driver").text() not in parameters["csiDrivers"]:
                yield violation(field.at("driver"), "is a driver that may mount paths of the node. List it under parameters if it does not")


@resource_rule(PODS, Severity.MEDIUM, "inference; add-emptydir-sizelimit")
def pod_require_empty_dir_limit(pod: PodTemplate, _: Parameters) -> Violations:
    """Every emptyDir has a size limit.
    Why: An emptyDir without a limit can fill the node's disk. In memory it counts against the container, which is then killed.
    Remedy: set emptyDir.sizeLimit, for example 2Gi.
    """
    limits = (each.at("sizeLimit") for each in pod.select("volumes", "*", "emptyDir") if not each.absent)
    yield from violations(limits, lambda limit: not limit.quantity(), "is not set")


@resource_rule(CONTAINERS, Severity.HIGH, "inference; Kubernetes: emptyDir")
def pod_limit_memory_volumes(container: Container, _: Parameters) -> Violations:
    """Volumes in memory fit into the container's memory limit.
    Why: Their content counts against the limit, so the kernel kills the server when the volume fills up.
    Remedy: lower emptyDir.sizeLimit, or raise resources.limits.memory.
    """
    limit = container.at("resources", "limits", "memory").quantity() or container.pod.at("resources", "limits", "memory").quantity()
    mounted = {each.at("name").text() for each in container.at("volumeMounts").each()}
    volumes = [each for each in container.pod.at("volumes").each() if each.at("name").text() in mounted]
    sizes = [each.at("emptyDir", "sizeLimit") for each in volumes if each.at("emptyDir", "medium").text() == "Memory"]
    if limit and sizes and sum(size.quantity() or 0 for size in sizes) > limit:
        yield violation(sizes[-1], "is more than the container's memory limit, with its other volumes in memory")
