"""Workloads that keep replicas running, how they roll out, and those that serve models."""

import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from inferplan.kube.field_owners import SCALER_BOUNDS
from inferplan.kube.pod_templates import LEADER_WORKER_SET, PATHS, RAY_SERVICE, RUN_TO_END
from inferplan.kube.quantity import amount
from inferplan.policies.engine.fields import Field, FieldError, MalformedFieldError, matching
from inferplan.policies.engine.resource import OneOf, Resource, Stack
from inferplan.policies.subjects import kserve
from inferplan.policies.subjects.placement import labels_at, matches_labels
from inferplan.policies.subjects.pods import PODS, PodTemplate
from inferplan.policies.subjects.serving import engine_containers

ROLLOUT = "kubernetes:argoproj.io:Rollout"
WORKLOADS = ("kubernetes:apps:Deployment", "kubernetes:apps:StatefulSet", ROLLOUT)
_RAY = ("kubernetes:ray.io:RayCluster", RAY_SERVICE)
GROUPS = (LEADER_WORKER_SET, *_RAY, *kserve.SERVICES)
"""Kinds of serving operators that make pods of several templates."""
SERVING_WORKLOADS = (*WORKLOADS, *GROUPS)
# A model server can run in a bare Pod, a DaemonSet or a Service of Knative too.
_ENGINES = (*SERVING_WORKLOADS, *(PATHS.keys() - {*SERVING_WORKLOADS, *RUN_TO_END}))
SCALERS: Final = (
    "kubernetes:autoscaling:HorizontalPodAutoscaler",
    "kubernetes:keda.sh:ScaledObject",
)


def copies_of(pod: PodTemplate, *, least: bool = False) -> float:
    """The number of pods of a template, at most or at the `least` if an autoscaler changes it.
    Raises FieldError.
    """
    resource = pod.resource
    if resource.kind == LEADER_WORKER_SET:
        groups = resource.at("spec", "replicas").number() or 1
        template = resource.at("spec", "leaderWorkerTemplate")
        size = template.at("size").number() or 1
        if pod.spec.keys[2] == "leaderTemplate":
            return groups
        return groups * (size if template.at("leaderTemplate").absent else size - 1)
    if resource.kind in kserve.SERVICES:
        return kserve.copies(pod.spec, least=least)
    if resource.kind in _RAY:
        return _ray_copies(pod, least=least)
    return resource.at("spec", "replicas").number() or 1


def _ray_copies(pod: PodTemplate, *, least: bool) -> float:
    group = _ray_group(pod)
    if group is None:
        return 1
    replicas, most = group.at("replicas").number() or 0, group.at("maxReplicas").number() or 0
    hosts = group.at("numOfHosts").number() or 1
    if not group.above.above.at("enableInTreeAutoscaling").flag():
        return hosts * replicas
    return hosts * ((group.at("minReplicas").number() or 0) if least else max(replicas, most))


def count_of(pod: PodTemplate) -> Field:
    if pod.resource.kind in kserve.SERVICES:
        owner = kserve.owner_of(pod.spec)
        return owner.at(
            "minReplicas" if pod.resource.kind == kserve.INFERENCE_SERVICE else "replicas"
        )
    return pod.resource.at("spec", "replicas")


def labels_of(pod: PodTemplate) -> dict[str, str]:
    """The labels of the pods of a template, including those that an operator adds. Raises
    FieldError.
    """
    labels = labels_at(pod.metadata.at("labels"))
    if pod.resource.kind in kserve.SERVICES:
        return kserve.labels_of(pod.spec, pod.resource) | labels
    if pod.resource.kind == LEADER_WORKER_SET:
        labels["leaderworkerset.sigs.k8s.io/name"] = pod.resource.object_name
    if pod.resource.kind in _RAY:
        labels |= {
            "ray.io/is-ray-node": "yes",
            "ray.io/node-type": "head" if _ray_group(pod) is None else "worker",
        }
    return labels


def _ray_group(pod: PodTemplate) -> Field | None:
    """The worker group of a template, None for the head."""
    group = pod.spec.above.above
    return group if group.above.keys[-1:] == ("workerGroupSpecs",) else None


def group_size_of(pod: PodTemplate) -> float:
    """The number of pods of one engine, which is above 1 only for LeaderWorkerSets and KServe.
    Raises FieldError.
    """
    if pod.resource.kind in kserve.SERVICES:
        return kserve.group_size(pod.spec)
    if pod.resource.kind == LEADER_WORKER_SET:
        return pod.resource.at("spec", "leaderWorkerTemplate", "size").number() or 1
    return 1


def strategy_of(pod: PodTemplate) -> Field:
    """The rollout settings. Each component of an InferenceService has its own."""
    if pod.resource.kind == kserve.INFERENCE_SERVICE:
        return kserve.owner_of(pod.spec).at("deploymentStrategy")
    return pod.resource.at("spec", "strategy")


def update_of(pod: PodTemplate, strategy: Field) -> Field:
    """The limits of a rolling update below the settings of a rollout, where the kind of the
    workload has them.
    """
    names = {LEADER_WORKER_SET: "rollingUpdateConfiguration", ROLLOUT: "canary"}
    return strategy.at(names.get(pod.resource.kind, "rollingUpdate"))


def rollout_of(pod: PodTemplate) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers of pods. A StatefulSet adds none. Raises FieldError."""
    if pod.resource.short_kind == "StatefulSet":
        return 0, 1
    strategy = strategy_of(pod)
    replicas = int(copies_of(pod) or 1)
    if strategy.at("type").text() == "Recreate":
        return 0, replicas
    update = update_of(pod, strategy)
    return share(update.at("maxSurge"), replicas, up=True), share(
        update.at("maxUnavailable"), replicas, up=False
    )


def share(field: Field, replicas: int, *, up: bool) -> int:
    """A number of pods, or a percentage of `replicas`, as a number; 25% by default. Raises
    FieldError.
    """
    text = field.text() or "25%"
    number = amount(text.removesuffix("%"))
    if number is None:
        raise MalformedFieldError(field, "a number or a percentage")
    if not text.endswith("%"):
        return int(number)
    exact = replicas * number / 100
    return math.ceil(exact) if up else math.floor(exact)


def scaled_by(scaler: Resource, workload: Resource) -> bool:
    target = scaler.at("spec", "scaleTargetRef")
    if (
        scaler.namespace != workload.namespace
        or (target.at("kind").text() or "Deployment") != workload.short_kind
    ):
        return False
    return target.at("name").text() == workload.object_name


def _targets(scaler: Resource) -> Iterator[tuple[str, str]]:
    yield scaler.namespace, scaler.at("spec", "scaleTargetRef", "name").text()


def least_replicas(stack: Stack, workload: Resource) -> float:
    """The smallest number of replicas: the largest minimum of its autoscalers, without one the
    declared number. Raises FieldError.
    """
    return max(
        (least for least, _ in _ranges(stack, workload)),
        default=workload.at("spec", "replicas").number_or(1),
    )


def most_copies(stack: Stack, pod: PodTemplate) -> float:
    """The largest number of pods of a template: the declared one or the maximum of the autoscaler.
    Raises FieldError.
    """
    declared = copies_of(pod)
    if pod.resource.kind not in (*WORKLOADS, LEADER_WORKER_SET):
        return declared
    most = max((most for _, most in _ranges(stack, pod.resource)), default=None)
    return (
        declared
        if most is None
        else declared / (pod.resource.at("spec", "replicas").number() or 1) * most
    )


def _ranges(stack: Stack, workload: Resource) -> Iterator[tuple[float, float]]:
    """The least and the most replicas by each autoscaler of a workload, with the defaults of its
    kind. Raises FieldError.
    """
    near = stack.candidates(SCALERS, _targets, (workload.namespace, workload.object_name))
    for scaler in matching(near, lambda each: scaled_by(each, workload)):
        least, most = (
            scaler.at("spec", field).number_or(default)
            for field, default in SCALER_BOUNDS[scaler.short_kind]
        )
        yield least, most


def least_pods(stack: Stack, pod: PodTemplate) -> float:
    return (
        copies_of(pod, least=True)
        if pod.resource.kind in GROUPS
        else least_replicas(stack, pod.resource)
    )


def pods_of(stack: Stack, *kinds: str) -> Iterator[PodTemplate]:
    """The pod templates of all workloads, including those of serving operators, or of `kinds`. It
    records what it cannot read.
    """
    for workload in stack.of(*(kinds or SERVING_WORKLOADS)):
        with stack.unreadable:
            yield from workload.parts(PODS)


def pods_in(stack: Stack, namespace: str) -> list[PodTemplate]:
    """The pod templates of the workloads in `namespace`. Raises FieldError."""
    return [
        pod
        for workload in stack.in_namespace(namespace, *SERVING_WORKLOADS)
        for pod in workload.parts(PODS)
    ]


def engines_of(stack: Stack) -> Iterator[PodTemplate]:
    """The pods, of whatever kind, that request accelerators or run an engine. It records what it
    cannot read.
    """
    for pod in pods_of(stack, *_ENGINES):
        with stack.unreadable:
            if engine_containers(pod) or pod.demand or pod.at("resourceClaims").has_items:
                yield pod


def selecting(stack: Stack, kind: str, pod: PodTemplate, *path: str) -> Iterator[Resource]:
    """The resources of `kind` in the pod's namespace whose label selector at `path` matches the
    pod. Raises FieldError.
    """
    labels = labels_of(pod)
    namespace = pod.resource.namespace
    return matching(
        near_selectors(stack, kind, pod, *path),
        lambda each: each.namespace == namespace and matches_labels(each.at(*path), labels),
    )


def near_selectors(stack: Stack, kind: str, pod: PodTemplate, *path: str) -> list[Resource]:
    """The resources of `kind` whose label selector at `path` may match the pod. Raises FieldError."""
    labels = (None, *labels_of(pod).items())
    return stack.candidates(
        [kind], _selectors, *((pod.resource.namespace, path, each) for each in labels)
    )


def _selectors(resource: Resource) -> Iterator[Hashable]:
    """For each place of a label selector, the namespace, the place and a label that it names, None
    without one. Raises FieldError.
    """
    for path in (("spec", "selector"), ("spec", "podSelector")):
        labels = _labels(resource.at(*path))
        yield OneOf((resource.namespace, path, each) for each in labels)


def _labels(selector: Field) -> list[tuple[str, str] | None]:
    return [*labels_at(selector.at("matchLabels")).items()] or [None]


def selected(
    stack: Stack, kinds: Iterable[str], selector: Field, namespace: str
) -> Iterator[PodTemplate]:
    """The pods of `kinds` in `namespace` that a label selector matches. Raises FieldError if a
    workload cannot be read, because the selector may match its pods.
    """
    try:
        labels = OneOf((namespace, each) for each in _labels(selector))
        near: Iterable[Resource] = stack.candidates(kinds, _pod_labels, labels)
    except FieldError:
        near = stack.of(*kinds)
    for workload in near:
        if workload.namespace == namespace:
            yield from (
                each for each in workload.parts(PODS) if matches_labels(selector, labels_of(each))
            )


def _pod_labels(workload: Resource) -> Iterator[Hashable]:
    """The namespace with each label of each pod, and with None. Raises FieldError."""
    for pod in workload.parts(PODS):
        for label in (None, *labels_of(pod).items()):
            yield workload.namespace, label


def claims_of(pod: PodTemplate, *, writing: bool) -> set[tuple[str, str]]:
    """Namespace and name of a pod's PersistentVolumeClaims; with `writing`, only those that it can
    write to. Raises FieldError.
    """
    claims = [
        claim
        for claim in pod.select("volumes", "*", "persistentVolumeClaim")
        if claim.at("claimName").text()
    ]
    return {
        (pod.resource.namespace, each.at("claimName").text())
        for each in claims
        if not (writing and each.at("readOnly").flag())
    }
