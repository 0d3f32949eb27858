"""The workloads of a stack that serve models, and what stands around them."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.resource import Resource, Stack
from policies.subjects.placement import matches_labels, same_namespace
from policies.subjects.pods import PodTemplate
from policies.subjects.serving import engine_containers
from policies.subjects.workloads import GROUPS, WORKLOADS, copies_of, labels_of, replicas_of, templates_of

SCALERS = ("kubernetes:autoscaling:HorizontalPodAutoscaler", "kubernetes:keda.sh:ScaledObject")


def workloads_of(stack: Stack) -> Iterator[Resource]:
    """Deployments and StatefulSets."""
    yield from stack.of(*sorted(WORKLOADS.kinds))


def least_replicas(stack: Stack, workload: Resource) -> float:
    """How many replicas a workload has at the least: its own number, or that of the autoscaler which owns it. Raises FieldError."""
    declared = replicas_of(workload)
    if declared is not None:
        return declared
    for scaler in stack.of(*SCALERS):
        target = scaler.at("spec", "scaleTargetRef")
        kind = target.at("kind").text() or "Deployment"
        if (
            kind == workload.short_kind
            and target.at("name").text() == workload.at("metadata", "name").text()
            and same_namespace(scaler, workload)
        ):
            least = scaler.at("spec", "minReplicas").number()
            return (scaler.at("spec", "minReplicaCount").number() or 0) if least is None and "keda" in scaler.kind else least or 1
    return 1


def standing_pods(stack: Stack) -> Iterator[tuple[Resource, PodTemplate, float]]:
    """Workloads, those of serving operators too, with their pod templates and the least number of pods of each. Raises FieldError."""
    for workload in workloads_of(stack):
        for pod in templates_of(workload):
            yield workload, pod, least_replicas(stack, workload)
    for workload in stack.of(*GROUPS):
        for pod in templates_of(workload):
            yield workload, pod, copies_of(pod, least=True)


def engines_of(stack: Stack) -> Iterator[tuple[Resource, PodTemplate]]:
    """The workloads, those of serving operators too, whose pods ask for accelerators or run vLLM, with those pods. Raises FieldError."""
    for workload in (*workloads_of(stack), *stack.of(*GROUPS)):
        for pod in templates_of(workload):
            if pod.demand or engine_containers(pod):
                yield workload, pod


def selecting(stack: Stack, kind: str, workload: Resource, pod: PodTemplate, *path: str) -> Iterator[Resource]:
    """The resources of `kind`, in the workload's namespace, whose label selector at `path` takes the pod. Raises FieldError."""
    labels = labels_of(pod)
    for each in stack.of(kind):
        if same_namespace(each, workload) and matches_labels(each.at(*path), labels):
            yield each


def claims_of(pod: PodTemplate, *, writing: bool) -> set[str]:
    """The PersistentVolumeClaims that a pod mounts; with `writing` only those it may write to. Raises FieldError."""
    claims = set()
    for volume in pod.at("volumes").each():
        claim = volume.at("persistentVolumeClaim")
        if claim.at("claimName").text() and not (writing and claim.at("readOnly").flag()):
            claims.add(claim.at("claimName").text())
    return claims
