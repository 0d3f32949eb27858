"""Servers cannot change the weights that they share."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import claims_of, engines_of
from policies.subjects.pods import PODS, PodTemplate


def _check(stack: Stack, _: Parameters) -> Findings:
    written: set[tuple[str, str]] = set()
    for job in stack.of("kubernetes:batch:Job"):
        with stack.doubts:
            namespace = job.at("metadata", "namespace").text()
            written |= {(namespace, claim) for pod in job.parts(PODS) for claim in claims_of(pod, writing=True)}
    for workload, pod in engines_of(stack):
        with stack.doubts:
            namespace = workload.at("metadata", "namespace").text()
            for volume in pod.at("volumes").each():
                claim = volume.at("persistentVolumeClaim")
                shared = (namespace, claim.at("claimName").text()) in written
                if shared and not claim.at("readOnly").flag() and _is_written(pod, volume.at("name")):
                    yield found(volume, "holds weights that a Job writes, and the server may write them too", urn=workload.urn)


def _is_written(pod: PodTemplate, name: Field) -> bool:
    """Whether a container mounts the volume of that name to write. Raises FieldError."""
    mounts = (mount for container in pod.containers for mount in container.at("volumeMounts").each())
    return any(mount.at("name").text() == name.text() and not mount.at("readOnly").flag() for mount in mounts)


RULE = StackRule(
    id="stack-require-read-only-weights",
    title="Servers cannot change the weights that they share",
    severity=Severity.HIGH,
    refs=("inference", "NSA-CISA: immutable file systems"),
    why="One server that is taken over could write other weights, which every replica loads at its next start",
    remedy="set readOnly: true on the server's persistentVolumeClaim or on each of its volumeMounts; only the Job that fetches weights writes them",
    check=_check,
)
