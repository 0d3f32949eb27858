"""Nodes, queues and money that the models of a stack need."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from typing import TYPE_CHECKING

from inferplan.kube.names import MONTHLY_BUDGET
from inferplan.policies.engine.fields import MalformedFieldError
from inferplan.policies.engine.resource import Resource, Stack, namespaces
from inferplan.policies.engine.rule import Parameters, Violations, stack_rule, violation
from inferplan.policies.subjects.kserve import INFERENCE_SERVICE
from inferplan.policies.subjects.networks import NETWORK_POLICY
from inferplan.policies.subjects.placement import (
    cluster_queue_of,
    demand_of,
    groups_of,
    local_queue,
    local_queues,
    nodes_of,
    queue_of,
)
from inferplan.policies.subjects.pods import PODS, Container, PodTemplate
from inferplan.policies.subjects.workloads import (
    SERVING_WORKLOADS,
    WORKLOADS,
    copies_of,
    count_of,
    engines_of,
    group_size_of,
    least_pods,
    most_copies,
    rollout_of,
    strategy_of,
)

if TYPE_CHECKING:
    from inferplan.capacity.declared import Declared

_NODE_GROUP = "aws:eks:NodeGroup"


@stack_rule
def stack_require_covered_resources(stack: Stack, parameters: Parameters) -> Violations:
    for each in stack.of(*sorted(PODS.kinds)):
        with stack.unreadable:
            name = queue_of(each).text()
            local = local_queue(stack, each.namespace, name) if name else None
            queue = cluster_queue_of(stack, local) if local else None
            if queue is None:
                continue
            quota = {
                name
                for group in queue.select("spec", "resourceGroups", "*")
                for name in group.at("coveredResources").texts()
            }
            for pod in each.parts(PODS):
                sides = (
                    container.at("resources", side)
                    for container in pod.containers
                    for side in ("requests", "limits")
                )
                requested = {name for side in sides for name, _field in side.entries()}
                if any(
                    not resource.startswith(tuple(parameters["excludedPrefixes"]))
                    for resource in requested - quota
                ):
                    yield violation(
                        queue.at("spec", "resourceGroups"),
                        "does not cover every resource that its pods request",
                        urn=each.urn,
                    )


@stack_rule
def stack_require_known_queue(stack: Stack, _: Parameters) -> Violations:
    for each in stack.of(*sorted(PODS.kinds)):
        with stack.unreadable:
            name, namespace = queue_of(each).text(), each.namespace
            if not name or local_queue(stack, namespace, name) is not None:
                continue
            # A stack that declares no queue in the namespace uses an existing one.
            if any(True for _ in local_queues(stack, namespace)):
                yield violation(
                    queue_of(each), "is not a LocalQueue of the stack in that namespace"
                )


@stack_rule
def stack_require_matching_pool(stack: Stack, _: Parameters) -> Violations:
    engines = list(engines_of(stack))
    groups = groups_of(nodes_of(stack), engines)
    for pod in engines:
        with stack.unreadable:
            for vendor in demand_of(stack, pod):
                # A stack that declares no node with that accelerator runs on nodes that exist
                # already.
                if any(node.accelerators.get(vendor) for node, _ in groups) and not any(
                    True for _ in groups.fitting(pod, vendor)
                ):
                    yield violation(
                        pod.at("nodeSelector"), "matches no node of the stack with that accelerator"
                    )


@stack_rule
def stack_require_pool_capacity(stack: Stack, _: Parameters) -> Violations:
    engines = list(engines_of(stack))
    groups = groups_of(nodes_of(stack), engines)
    requested: dict[tuple[str, tuple[int, ...]], float] = {}
    for pod in engines:
        with stack.unreadable:
            for vendor, count in demand_of(stack, pod).items():
                fitting = tuple(groups.fitting(pod, vendor))
                if not fitting:
                    # Other stacks or people declare the other nodes. A separate rule checks
                    # selectors.
                    continue
                if all(groups[place][0].accelerators[vendor] < count for place in fitting):
                    yield violation(
                        pod.at("containers"), "requests more accelerators than any node has"
                    )
                key = (vendor, fitting)
                requested[key] = requested.get(key, 0) + count * most_copies(stack, pod)
                declared = (groups[place] for place in fitting)
                if requested[key] > sum(
                    node.accelerators[vendor] * size for node, size in declared
                ):
                    yield violation(
                        count_of(pod), "requests more accelerators than the pool has left"
                    )


@stack_rule
def stack_require_room_for_rollout(stack: Stack, _: Parameters) -> Violations:
    engines = list(engines_of(stack))
    groups = groups_of(nodes_of(stack), engines)
    used: dict[tuple[frozenset[int], str], float] = {}
    for pod in engines:
        # Skip a workload that cannot be read: what it uses is unknown.
        with stack.unreadable:
            fitting = frozenset(groups.fitting(pod))
            for vendor, count in demand_of(stack, pod).items():
                used[fitting, vendor] = used.get((fitting, vendor), 0) + count * copies_of(pod)
    for pod in engines:
        if pod.resource.kind not in (*WORKLOADS, INFERENCE_SERVICE):
            # An operator decides how it rolls out its workloads, and nothing rolls out a bare pod.
            continue
        with stack.unreadable:
            if pod.partial or group_size_of(pod) > 1:
                continue
            surge, unavailable = rollout_of(pod)
            if surge == 0 or unavailable > 0:
                continue
            for vendor, count in demand_of(stack, pod).items():
                fitting = frozenset(groups.fitting(pod))
                spare = sum(
                    node.accelerators.get(vendor, 0) * size
                    for node, size in (groups[place] for place in fitting)
                ) - sum(
                    number
                    for (others, used_vendor), number in used.items()
                    if used_vendor == vendor and others & fitting
                )
                if spare < count * surge:
                    place = strategy_of(pod).at("rollingUpdate", "maxSurge")
                    who = (
                        "the stack's nodes do not have"
                        if groups
                        else "no node of the stack is known to have"
                    )
                    yield violation(place, f"needs accelerators that {who} to spare")


@stack_rule
def stack_require_room_in_namespace(stack: Stack, _: Parameters) -> Violations:
    problem = "is less than the pods of the stack need, so the next one that starts is rejected"
    used = cache(partial(_used, stack))
    sizes_of = cache(partial(_sizes, stack))
    largest = cache(lambda total, *place: max(map(total, sizes_of(*place)), default=-math.inf))
    for quota in stack.of("kubernetes:core:ResourceQuota"):
        with stack.unreadable:
            spec = quota.at("spec")
            # A quota with a scope counts only some pods.
            is_scoped = spec.at("scopes").has_items or spec.at("scopeSelector").value
            for name, field in () if is_scoped else spec.at("hard").entries():
                if used(quota.namespace, name) > (field.quantity() or 0):
                    yield violation(field, problem)
    for bounds in stack.of("kubernetes:core:LimitRange"):
        with stack.unreadable:
            for item in bounds.select("spec", "limits", "*"):
                total = sum if item.at("type").text() == "Pod" else max
                for name, most in item.at("max").entries():
                    limit = most.quantity() or 0
                    if largest(total, bounds.namespace, name) > limit:
                        yield violation(most, problem)


def _used(stack: Stack, namespace: str, name: str) -> float:
    """The part of the quota `name` that the smallest number of replicas of each pod in a namespace
    uses. It records what it cannot read.
    """
    used = 0.0
    for workload in stack.candidates(SERVING_WORKLOADS, namespaces, namespace):
        for pod in _pods(stack, workload, namespace):
            with stack.unreadable:
                each = (
                    1
                    if name in ("pods", "count/pods")
                    else sum((*(_request(part, name) for part in pod.running), *_claims(pod, name)))
                )
                used += each and each * least_pods(stack, pod)
    return used


def _sizes(stack: Stack, namespace: str, resource: str) -> list[list[float]]:
    """The largest requests of a resource, by container, of each pod in a namespace. It records what
    it cannot read.
    """
    sizes: list[list[float]] = []
    for workload in stack.candidates(sorted(PODS.kinds), namespaces, namespace):
        for pod in _pods(stack, workload, namespace):
            with stack.unreadable:
                sizes.append(
                    [
                        max(_request(each, f"limits.{resource}"), _request(each, resource))
                        for each in pod.running
                    ]
                    or [0]
                )
                sizes.append([*_claims(pod, resource), 0])
    return sizes


def _pods(stack: Stack, workload: Resource, namespace: str) -> tuple[PodTemplate, ...]:
    with stack.unreadable:
        if workload.namespace == namespace:
            return workload.parts(PODS)
    return ()


def _claims(pod: PodTemplate, name: str) -> Iterator[float]:
    """The storage that each volume claim of a StatefulSet's pod requests. Raises FieldError."""
    claims = pod.resource.select(
        "spec", "volumeClaimTemplates", "*", "spec", "resources", "requests", "storage"
    )
    yield from (each.quantity() or 0 for each in claims if name in ("requests.storage", "storage"))


def _request(container: Container, name: str) -> float:
    """The part of the quota `name` that a container uses, such as requests.memory or limits.cpu. A
    request without a value is the limit.
    """
    side, _, resource = (
        name.partition(".") if name.startswith(("requests.", "limits.")) else ("requests", "", name)
    )
    fields = (container.at("resources", each, resource) for each in (side, "limits"))
    return next((number for field in fields if (number := field.quantity()) is not None), 0)


@stack_rule
def stack_limit_spend(stack: Stack, _: Parameters) -> Violations:
    from decimal import Decimal

    budgets = []
    # A stack in a namespace of others has its budget on its network policy.
    for namespace in stack.of("kubernetes:core:Namespace", NETWORK_POLICY):
        with stack.unreadable:
            budget = namespace.at("metadata", "annotations", MONTHLY_BUDGET)
            budgets += [] if budget.absent else [budget]
    if not budgets:
        return
    # Only a stack with a budget needs the price list, which takes time to read.
    from inferplan.capacity.budget import over_budget, usd
    from inferplan.capacity.cost import monthly_cost

    cost = monthly_cost(_declared(stack))
    for budget in budgets:
        with stack.unreadable:
            limit = budget.quantity()
            if limit is None or limit < 0:
                raise MalformedFieldError(budget, "a number of US dollars")
            allowed = Decimal(budget.text())
            if over_budget(cost, allowed):
                # No instance types in the text: they are values of a resource.
                exceeded = (
                    f"is exceeded: the stack can cost up to {usd(cost.most)} a month at list prices"
                )
                yield violation(
                    budget,
                    exceeded
                    if cost.most > allowed
                    else "cannot be checked: a node group has no list price",
                    urn="",
                )


def _declared(stack: Stack) -> Iterator[Declared]:
    """The resources with a price. An unknown size is recorded as unreadable and counts as zero."""
    from inferplan.capacity.declared import Declared

    for each in stack:
        with stack.unreadable:
            if each.kind == _NODE_GROUP:
                for key in ("minSize", "desiredSize", "maxSize"):
                    each.at("scalingConfig", key).number()
                each.at("instanceTypes").texts()
            yield Declared(type=each.type, urn=each.urn, name=each.name, inputs=dict(each.inputs))
