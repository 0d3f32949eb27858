"""Volumes, storage classes and mounts of model stores."""

from collections.abc import Collection, Iterable, Iterator

from inferplan.images.starts import is_below
from inferplan.kube.pod_templates import RUN_TO_END
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from inferplan.policies.subjects.serving import WRITTEN, engine_containers, folder_of
from inferplan.policies.subjects.workloads import claims_of, engines_of, pods_of

VOLUME = "kubernetes:core:PersistentVolume"
RESTRICTED_TYPES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "hostPath",
    ]
)


@stack_rule
def stack_require_read_only_weights(stack: Stack, _: Parameters) -> Violations:
    job_claims: set[tuple[str, str]] = set()
    weight_folders: set[tuple[tuple[str, str], str]] = set()
    for job in stack.of("kubernetes:batch:Job"):
        with stack.unreadable:
            job_claims |= {
                claim for pod in job.parts(PODS) for claim in claims_of(pod, writing=True)
            }
    for pod in engines_of(stack):
        with stack.unreadable:
            volumes = _volumes_with_claims(pod, job_claims)
            weight_folders |= {
                (claim, folder)
                for claim, volume in volumes
                for folder in _folders(volume, pod.running, read_only=True)
            }
    for pod in engines_of(stack):
        with stack.unreadable:
            for claim, volume in _volumes_with_claims(pod, job_claims):
                weights = {folder for other, folder in weight_folders if other == claim}
                if not _folders(volume, pod.running, read_only=True):
                    # What only an init container reads, for example to check it, is served too.
                    weights.update(_folders(volume, pod.containers, read_only=True))
                folders = _folders(volume, pod.containers, read_only=False)
                if any(
                    not weights or any(_overlap(folder, other) for other in weights)
                    for folder in folders
                ):
                    yield violation(
                        volume,
                        "contains weights that a Job writes, but the server can write them too",
                    )

    for pod in engines_of(stack):
        with stack.unreadable:
            yield from _named_weights(pod)
    yield from _other_writers(stack)


def _other_writers(stack: Stack) -> Violations:
    """The volumes with weights that a server names, in pods that run and serve no model, and those
    that another container of the server's pod can write.
    """
    served: dict[tuple[str, str], set[str]] = {}
    servers: set[str] = set()
    for pod in engines_of(stack):
        servers.add(pod.resource.urn)
        with stack.unreadable:
            for claim, folder in _served(pod):
                served.setdefault(claim, set()).add(folder)
    for pod in pods_of(stack, *sorted(PODS.kinds - RUN_TO_END)) if served else ():
        with stack.unreadable:
            others = pod.containers
            if pod.resource.urn in servers:
                engines = {each.field.path for each in engine_containers(pod)}
                others = tuple(each for each in pod.running if each.field.path not in engines)
            for claim, volume in _volumes_with_claims(pod, served.keys()):
                folders = _folders(volume, others, read_only=False)
                if any(_overlap(one, other) for one in folders for other in served[claim]):
                    yield violation(
                        volume, "contains the weights of a server, and another program can write it"
                    )


def _served(pod: PodTemplate) -> Iterator[tuple[tuple[str, str], str]]:
    """Each claim with a model that a server names, and the folder of it that the server mounts.
    Raises FieldError.
    """
    claims = {
        volume.at("name").text(): volume.at("persistentVolumeClaim", "claimName").text()
        for volume in pod.at("volumes").each()
    }
    for container in engine_containers(pod):
        model = folder_of(container)
        for mount in container.at("volumeMounts").each():
            claim = claims.get(mount.at("name").text())
            if claim and is_below(model, mount.at("mountPath").text()):
                yield (pod.resource.namespace, claim), mount.at("subPath").text().strip("/")


def _named_weights(pod: PodTemplate) -> Violations:
    """The mounts of claims with the model that a server names, if it may write them and does not
    have to: no folder of its caches is there.
    """
    claims = {
        volume.at("name").text()
        for volume in pod.at("volumes").each()
        if volume.at("persistentVolumeClaim", "claimName").text()
        and not volume.at("persistentVolumeClaim", "readOnly").flag()
    }
    for container in pod.running:
        model = folder_of(container)
        written = [each.at("value").text() for each in container.variables(WRITTEN)]
        for mount in container.at("volumeMounts").each():
            path = mount.at("mountPath").text()
            if (
                mount.at("name").text() in claims
                and not mount.at("readOnly").flag()
                and model
                and is_below(model, path)
                and not any(is_below(each, path) for each in written)
            ):
                yield violation(mount, "contains the weights, but the server can write them too")


def _volumes_with_claims(
    pod: PodTemplate, claims: Collection[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], Field]]:
    """The volumes of a pod that use one of `claims`, each with its claim. Raises FieldError."""
    namespace = pod.resource.namespace
    for volume in pod.at("volumes").each():
        claim = (namespace, volume.at("persistentVolumeClaim", "claimName").text())
        if claim in claims:
            yield claim, volume


def _folders(volume: Field, containers: Iterable[Container], *, read_only: bool) -> list[str]:
    """The directories of a volume that `containers` mount read-only, or to write; "" is the whole
    volume. Raises FieldError.
    """
    name, claim_is_read_only = (
        volume.at("name").text(),
        bool(volume.at("persistentVolumeClaim", "readOnly").flag()),
    )
    mounts = (
        mount
        for container in containers
        for mount in container.at("volumeMounts").each()
        if mount.at("name").text() == name
    )
    matching = (
        each
        for each in mounts
        if (claim_is_read_only or bool(each.at("readOnly").flag())) == read_only
    )
    # A path with variables can be any directory.
    return [
        "" if mount.at("subPathExpr").text() else mount.at("subPath").text().strip("/")
        for mount in matching
    ]


def _overlap(one: str, other: str) -> bool:
    return is_below(one, other) or is_below(other, one)


@resource_rule(objects(VOLUME))
def volume_require_nfs_options(volume: Resource, parameters: Parameters) -> Violations:
    if volume.at("spec", "nfs").absent:
        return
    options = volume.at("spec", "mountOptions").texts()
    for name in parameters["options"]:
        if not any(option == name or option.startswith(f"{name}=") for option in options):
            yield violation(volume.at("spec", "mountOptions"), f"does not include {name}")


@resource_rule(PODS)
def pod_restrict_volume_types(pod: PodTemplate, parameters: Parameters) -> Violations:
    for volume in pod.at("volumes").each():
        for kind, field in volume.entries():
            # pod-disallow-host-path checks hostPath.
            if kind != "name" and kind not in RESTRICTED_TYPES and not field.absent:
                yield violation(
                    field, "is a volume type that the restricted Pod Security Standard forbids"
                )
            if kind == "csi" and field.at("driver").text() not in parameters["csiDrivers"]:
                yield violation(
                    field.at("driver"),
                    "is a driver that may mount paths of the node. List it under parameters if it"
                    " does not",
                )


@resource_rule(PODS)
def pod_require_empty_dir_limit(pod: PodTemplate, _: Parameters) -> Violations:
    limits = (
        each.at("sizeLimit") for each in pod.select("volumes", "*", "emptyDir") if not each.absent
    )
    yield from violations(limits, lambda limit: not limit.quantity(), "is not set")


@resource_rule(CONTAINERS)
def pod_limit_memory_volumes(container: Container, _: Parameters) -> Violations:
    limit = (
        container.at("resources", "limits", "memory").quantity()
        or container.pod.at("resources", "limits", "memory").quantity()
    )
    mounted = {each.at("name").text() for each in container.at("volumeMounts").each()}
    volumes = [
        each for each in container.pod.at("volumes").each() if each.at("name").text() in mounted
    ]
    sizes = [
        each.at("emptyDir", "sizeLimit")
        for each in volumes
        if each.at("emptyDir", "medium").text() == "Memory"
    ]
    if limit and sizes and sum(size.quantity() or 0 for size in sizes) > limit:
        yield violation(
            sizes[-1], "is more than the container's memory limit, with its other volumes in memory"
        )
