"""Replicas, disruption budgets and the order of a rollout."""

from __future__ import annotations

from collections.abc import Iterator

from inferplan.kube.pod_templates import LEADER_WORKER_SET
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import Parameters, Severity, Violations, resource_rule, stack_rule, violation
from inferplan.policies.subjects.placement import matches_labels
from inferplan.policies.subjects.pods import PODS, PodTemplate
from inferplan.policies.subjects.workloads import (
    SCALERS,
    SERVING_WORKLOADS,
    WORKLOADS,
    claims_of,
    count_of,
    engines_of,
    labels_of,
    least_pods,
    pods_of,
    selecting,
    share,
)

BUDGET = "kubernetes:policy:PodDisruptionBudget"


@resource_rule(objects(BUDGET), Severity.HIGH, "inference; Kyverno pdb-maxunavailable")
def rollout_disallow_blocking_budget(budget: Resource, _: Parameters) -> Violations:
    """Disruption budgets let nodes drain.
    Why: A budget that allows no disruption blocks the drain of a node, and with it every upgrade.
    Remedy: set maxUnavailable: 1.
    """
    for name, blocking in (("maxUnavailable", ("0", "0%")), ("minAvailable", ("100%",))):
        if budget.at("spec", name).text() in blocking:
            yield violation(budget.at("spec", name), "allows no disruption")


@stack_rule(Severity.HIGH, "inference; Kyverno deployment-replicas-higher-than-pdb")
def stack_disallow_budget_of_all_replicas(stack: Stack, _: Parameters) -> Violations:
    """Disruption budgets require fewer pods than there are.
    Why: A budget of all replicas blocks the drain of a node, and with it every upgrade.
    Remedy: lower minAvailable below the number of replicas, or set maxUnavailable: 1.
    """
    for budget in stack.of(BUDGET):
        with stack.unreadable:
            least = budget.at("spec", "minAvailable")
            if least.absent:
                continue
            counts = [least_pods(stack, pod) for pod in _selected_pods(stack, budget)]
            pods = max(int(sum(counts)), 1)
            if counts and share(least, pods, up=True) >= pods:
                yield violation(least, "allows no disruption")


def _selected_pods(stack: Stack, budget: Resource) -> Iterator[PodTemplate]:
    """The pods that a budget selects. Raises FieldError if a workload cannot be read, because the budget may select it."""
    for workload in stack.of(*SERVING_WORKLOADS):
        if workload.namespace == budget.namespace:
            yield from (each for each in workload.parts(PODS) if matches_labels(budget.at("spec", "selector"), labels_of(each)))


@stack_rule(Severity.HIGH, "inference; Kyverno check-hpa")
def stack_disallow_replicas_of_autoscaled(stack: Stack, _: Parameters) -> Violations:
    """One autoscaler, or the declaration, decides the replicas of a workload.
    Why: Every update would reset the number of replicas, even at peak load. Two autoscalers work against each other.
    Remedy: omit spec.replicas from a workload that an HPA or a ScaledObject scales, or pass ignore_changes=["spec.replicas"]; keep one
    autoscaler for each workload.
    """
    scaled: set[tuple[str, str, str]] = set()
    for scaler in stack.of(*SCALERS):
        with stack.unreadable:
            target = scaler.at("spec", "scaleTargetRef")
            kind = target.at("kind").text() or "Deployment"
            identity = (scaler.namespace, kind, target.at("name").text())
            if identity in scaled:
                yield violation(target.at("name"), "is scaled by another autoscaler of the stack too")
            scaled.add(identity)
    for workload in stack.of(*WORKLOADS, LEADER_WORKER_SET):
        with stack.unreadable:
            name = (workload.namespace, workload.short_kind, workload.object_name)
            if name in scaled and "spec.replicas" not in workload.ignore_changes and not workload.at("spec", "replicas").absent:
                yield violation(workload.at("spec", "replicas"), "is set, but an autoscaler controls it")


@stack_rule(Severity.MEDIUM, "inference; Kyverno require-pdb")
def stack_require_disruption_budget(stack: Stack, _: Parameters) -> Violations:
    """Workloads with several replicas have a disruption budget.
    Why: Without a budget, a drain can evict all replicas at the same time.
    Remedy: add a PodDisruptionBudget with maxUnavailable: 1 that selects the pods.
    """
    for pod in pods_of(stack):
        with stack.unreadable:
            if least_pods(stack, pod) >= 2 and not any(True for _ in selecting(stack, BUDGET, pod, "spec", "selector")):
                yield violation(count_of(pod), "has no disruption budget")


@stack_rule(Severity.HIGH)
def stack_require_preheat_before_serving(stack: Stack, _: Parameters) -> Violations:
    """Servers start after their preheat.
    Why: A server that starts before the copy is complete reads an incomplete model or fails.
    Remedy: make the Deployment depend on the Job that writes its weights (depends_on).
    """
    writers: dict[tuple[str, str], set[str]] = {}
    for job in stack.of("kubernetes:batch:Job"):
        with stack.unreadable:
            for pod in job.parts(PODS):
                for claim in claims_of(pod, writing=True):
                    writers.setdefault(claim, set()).add(job.urn)
    for pod in engines_of(stack):
        with stack.unreadable:
            for claim in sorted(claims_of(pod, writing=False) & writers.keys()):
                if not writers[claim] & stack.dependencies_of(pod.resource):
                    problem = "contains weights that a Job writes, but the server does not wait for the Job"
                    yield violation(pod.at("volumes"), problem)
