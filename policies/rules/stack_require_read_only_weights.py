"""Servers cannot change shared weights."""

from __future__ import annotations

from pathlib import PurePosixPath

from policies.engine.fields import Field
from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import claims_of, engines_of
from policies.subjects.pods import PODS, PodTemplate


def _check(stack: Stack, _: Parameters) -> Findings:
    written: set[tuple[str, str]] = set()
    read: set[tuple[str, str, str]] = set()
    for job in stack.of("kubernetes:batch:Job"):
        with stack.doubts:
            namespace = job.at("metadata", "namespace").text()
            written |= {(namespace, claim) for pod in job.parts(PODS) for claim in claims_of(pod, writing=True)}
    for workload, pod in engines_of(stack):
        with stack.doubts:
            namespace = workload.at("metadata", "namespace").text()
            read |= {
                (namespace, claim, folder)
                for volume in pod.at("volumes").each()
                if (namespace, claim := volume.at("persistentVolumeClaim", "claimName").text()) in written
                for folder in _folders(pod, volume, read_only=True)
            }
    for workload, pod in engines_of(stack):
        with stack.doubts:
            namespace = workload.at("metadata", "namespace").text()
            for volume in pod.at("volumes").each():
                name = volume.at("persistentVolumeClaim", "claimName").text()
                weights = {folder for space, claim, folder in read if (space, claim) == (namespace, name)}
                if (namespace, name) in written and any(
                    not weights or any(_overlap(folder, other) for other in weights) for folder in _folders(pod, volume, read_only=False)
                ):
                    yield found(volume, "holds weights that a Job writes, but the server can write them too", urn=workload.urn)


def _folders(pod: PodTemplate, volume: Field, *, read_only: bool) -> list[str]:
    """The directories of a volume that containers of the pod mount read-only, or to write; "" for all of it. Raises FieldError."""
    name, sealed = volume.at("name").text(), bool(volume.at("persistentVolumeClaim", "readOnly").flag())
    mounts = (mount for container in pod.containers for mount in container.at("volumeMounts").each() if mount.at("name").text() == name)
    return [
        # A path with variables may lead anywhere.
        "" if mount.at("subPathExpr").text() else (mount.at("subPath").text() or "").strip("/")
        for mount in mounts
        if (sealed or bool(mount.at("readOnly").flag())) == read_only
    ]


def _overlap(one: str, other: str) -> bool:
    """True if one of two directories is, or holds, the other."""
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)


RULE = StackRule(
    id="stack-require-read-only-weights",
    title="Servers cannot change shared weights",
    severity=Severity.HIGH,
    refs=("inference", "NSA-CISA: immutable file systems"),
    why="A compromised server could replace the weights that every replica loads at its next start",
    remedy=(
        "set readOnly: true on the server's persistentVolumeClaim or on each of its volumeMounts; to write other files, mount a"
        " separate subPath without weights"
    ),
    check=_check,
)
