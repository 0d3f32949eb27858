"""The workloads of a stack that serve models, and what stands around them."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.fields import matching
from policies.engine.resource import Resource, Stack
from policies.subjects.placement import matches_labels, same_namespace
from policies.subjects.pods import PodTemplate
from policies.subjects.serving import engine_containers
from policies.subjects.workloads import GROUPS, WORKLOADS, copies_of, labels_of, replicas_of, templates_of

SCALERS = ("kubernetes:autoscaling:HorizontalPodAutoscaler", "kubernetes:keda.sh:ScaledObject")


def workloads_of(stack: Stack) -> Iterator[Resource]:
    """Deployments and StatefulSets."""
    yield from stack.of(*sorted(WORKLOADS.kinds))


def serving_workloads(stack: Stack) -> Iterator[Resource]:
    """Deployments, StatefulSets and the workloads of serving operators."""
    yield from workloads_of(stack)
    yield from stack.of(*GROUPS)


def scaled_by(scaler: Resource, workload: Resource) -> bool:
    """True if an autoscaler owns the replicas of a workload. Raises FieldError."""
    target = scaler.at("spec", "scaleTargetRef")
    if not same_namespace(scaler, workload) or (target.at("kind").text() or "Deployment") != workload.short_kind:
        return False
    return target.at("name").text() == workload.at("metadata", "name").text()


def least_replicas(stack: Stack, workload: Resource) -> float:
    """The number of replicas a workload has at the least: its own number, or that of the autoscaler which owns it. Raises FieldError."""
    declared = replicas_of(workload)
    if declared is not None:
        return declared
    for scaler in matching(stack.of(*SCALERS), lambda each: scaled_by(each, workload)):
        least = scaler.at("spec", "minReplicas").number()
        return (scaler.at("spec", "minReplicaCount").number() or 0) if least is None and "keda" in scaler.kind else least or 1
    return 1


def standing_pods(stack: Stack, pod: PodTemplate) -> float:
    """The number of pods of a template there are at the least. Raises FieldError."""
    return copies_of(pod, least=True) if pod.resource.kind in GROUPS else least_replicas(stack, pod.resource)


def pods_of(stack: Stack) -> Iterator[PodTemplate]:
    """The pod templates of all workloads, those of serving operators too; one that cannot be read is among the stack's doubts."""
    for workload in serving_workloads(stack):
        with stack.doubts:
            yield from templates_of(workload)


def engines_of(stack: Stack) -> Iterator[tuple[Resource, PodTemplate]]:
    """The workloads, those of serving operators too, whose pods ask for accelerators or run vLLM, with those pods.

    One that cannot be told is among the stack's doubts.
    """
    for pod in pods_of(stack):
        with stack.doubts:
            if engine_containers(pod) or pod.demand or any(True for _ in pod.at("resourceClaims").each()):
                yield pod.resource, pod


def selecting(stack: Stack, kind: str, workload: Resource, pod: PodTemplate, *path: str) -> Iterator[Resource]:
    """The resources of `kind`, in the workload's namespace, whose label selector at `path` takes the pod; those that are known first.

    Raises FieldError.
    """
    labels = labels_of(pod)
    return matching(stack.of(kind), lambda each: same_namespace(each, workload) and matches_labels(each.at(*path), labels))


def claims_of(pod: PodTemplate, *, writing: bool) -> set[str]:
    """The PersistentVolumeClaims that a pod mounts; with `writing` only those it may write to. Raises FieldError."""
    claims = set()
    for volume in pod.at("volumes").each():
        claim = volume.at("persistentVolumeClaim")
        if claim.at("claimName").text() and not (writing and claim.at("readOnly").flag()):
            claims.add(claim.at("claimName").text())
    return claims
