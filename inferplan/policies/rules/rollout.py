"""Replicas, disruption budgets and the order of a rollout."""

from collections.abc import Iterator

from inferplan.kube.pod_templates import LEADER_WORKER_SET
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Stack
from inferplan.policies.engine.rule import Parameters, Violations, stack_rule, violation
from inferplan.policies.subjects.placement import labels_at, matches_labels
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
    near_selectors,
    pods_of,
    selected,
    selecting,
    share,
    strategy_of,
    update_of,
)

BUDGET = "kubernetes:policy:PodDisruptionBudget"


@stack_rule
def stack_disallow_budget_of_all_replicas(stack: Stack, _: Parameters) -> Violations:
    for budget in stack.of(BUDGET):
        with stack.unreadable:
            least = budget.at("spec", "minAvailable")
            if least.absent:
                continue
            pods = selected(
                stack, SERVING_WORKLOADS, budget.at("spec", "selector"), budget.namespace
            )
            counts = [least_pods(stack, pod) for pod in pods]
            total = max(int(sum(counts)), 1)
            if counts and share(least, total, up=True) >= total:
                yield violation(least, "allows no disruption")


@stack_rule
def stack_disallow_replicas_of_autoscaled(stack: Stack, _: Parameters) -> Violations:
    scaled: set[tuple[str, str, str]] = set()
    for scaler in stack.of(*SCALERS):
        with stack.unreadable:
            target = scaler.at("spec", "scaleTargetRef")
            kind = target.at("kind").text() or "Deployment"
            identity = (scaler.namespace, kind, target.at("name").text())
            if identity in scaled:
                yield violation(
                    target.at("name"), "is scaled by another autoscaler of the stack too"
                )
            scaled.add(identity)
    for workload in stack.of(*WORKLOADS, LEADER_WORKER_SET):
        with stack.unreadable:
            name = (workload.namespace, workload.short_kind, workload.object_name)
            if (
                name in scaled
                and "spec.replicas" not in workload.ignore_changes
                and not workload.at("spec", "replicas").absent
            ):
                yield violation(
                    workload.at("spec", "replicas"), "is set, but an autoscaler controls it"
                )


@stack_rule
def stack_disallow_overlapping_budgets(stack: Stack, _: Parameters) -> Violations:
    firsts: dict[str, tuple[str, str] | None] = {}
    for budget in stack.of(BUDGET):
        with stack.unreadable:
            wanted = labels_at(budget.at("spec", "selector", "matchLabels"))
            firsts[budget.urn] = next(iter(wanted.items()), None)
    seen: set[str] = set()
    for workload in stack.of(*sorted(PODS.kinds)):
        with stack.unreadable:
            for pod in workload.parts(PODS):
                labels = labels_of(pod)
                places: dict[tuple[str, str] | None, int] = {
                    each: place for place, each in enumerate(labels.items())
                }
                near = [
                    each
                    for each in near_selectors(stack, BUDGET, pod, "spec", "selector")
                    if each.urn in firsts and each.namespace == workload.namespace
                ]
                near.sort(key=lambda each: places.get(firsts[each.urn], len(places)))
                _first, *more = [
                    each for each in near if matches_labels(each.at("spec", "selector"), labels)
                ] or [None]
                for budget in more:
                    if budget is not None and budget.urn not in seen:
                        seen.add(budget.urn)
                        yield violation(
                            budget.at("spec", "selector"),
                            "selects pods that another disruption budget selects too",
                        )


@stack_rule
def stack_require_replicas_during_rollout(stack: Stack, _: Parameters) -> Violations:
    for pod in pods_of(stack):
        with stack.unreadable:
            replicas = int(least_pods(stack, pod))
            if pod.resource.kind == LEADER_WORKER_SET:
                replicas = int(pod.resource.at("spec", "replicas").number_or(1))
            for field in _stops(pod, replicas) if replicas > 1 else ():
                yield violation(field, "stops every replica at once")
    for agent in stack.of("kubernetes:apps:DaemonSet"):
        with stack.unreadable:
            # A DaemonSet that serves nothing, for example one that pulls images, may be replaced at
            # once.
            serves = any(
                not each.at("readinessProbe").absent
                for pod in agent.parts(PODS)
                for each in pod.containers
            )
            field = agent.at("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
            if serves and field.text() == "100%":
                yield violation(field, "stops the pods of every node at once")


def _stops(pod: PodTemplate, replicas: int) -> Iterator[Field]:
    """The fields of a rollout that stop every replica. Raises FieldError."""
    spec = pod.resource.at("spec")
    places = {
        "StatefulSet": spec.at("updateStrategy"),
        "LeaderWorkerSet": spec.at("rolloutStrategy"),
    }
    strategy = places.get(pod.resource.short_kind) or strategy_of(pod)
    if strategy.at("type").text() == "Recreate":
        yield strategy.at("type")
    unavailable = update_of(pod, strategy).at("maxUnavailable")
    if not unavailable.absent and share(unavailable, replicas, up=False) >= replicas:
        yield unavailable


@stack_rule
def stack_require_disruption_budget(stack: Stack, _: Parameters) -> Violations:
    for pod in pods_of(stack):
        with stack.unreadable:
            if least_pods(stack, pod) >= 2 and not any(
                True for _ in selecting(stack, BUDGET, pod, "spec", "selector")
            ):
                yield violation(count_of(pod), "has no disruption budget")


@stack_rule
def stack_require_preheat_before_serving(stack: Stack, _: Parameters) -> Violations:
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
                    problem = (
                        "contains weights that a Job writes, but the server does not wait for"
                        " the Job"
                    )
                    yield violation(pod.at("volumes"), problem)
