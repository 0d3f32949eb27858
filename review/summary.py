"""A step without its values: its changes, its risks, and the parts that sums over the whole stack need.

A stream has thousands of steps of some 10 kB each. Every step is summarized when it ends, so that only summaries are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from sys import intern
from typing import Any

from kube.paths import mapping
from review.changes import property_changes
from review.events import STACK_TYPE, State
from review.pods import pod_sets, templates_of
from review.preview import Side, StepSummary
from review.risk import gone, risks_of
from review.step import Step

# Capacity, cost, access and rollouts read these types whole, and of other objects only how they are rolled out.
_READ_WHOLE = re.compile(
    r"inferplan:.*|pulumi:providers:aws|.*:NodePool|kubernetes:core/v1:(Node|Service)|kubernetes:networking\.k8s\.io/v1:Ingress"
    r"|kubernetes:(keda\.sh/v1alpha1:ScaledObject|autoscaling/v2:HorizontalPodAutoscaler)"
    r"|aws:ebs/volume:Volume|aws:eks/nodeGroup:NodeGroup|aws:ec2/launchTemplate:LaunchTemplate|.*:NodeClass"
)
_STRATEGIES = ("strategy", "updateStrategy", "upgradeStrategy", "rolloutStrategy")
_SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type, not a secret
_SECRET_REFERENCES = frozenset({"secretName", "secretRef", "secretKeyRef", "imagePullSecrets", "secret"})
_DEEPEST = 30
_UNCHANGED = ("same", "read")
_NAME_WITH_DIGEST = re.compile(r"-(?=[0-9a-f]*[0-9])[0-9a-f]{8,}$")


def summary_of(step: Step) -> StepSummary:
    """Summarize `step`."""
    changes = () if step.op in _UNCHANGED or step.type == STACK_TYPE else property_changes(step)
    old, new = _side(step, step.old, last=step.new is None), _side(step, step.new, last=True)
    inputs = [(state.inputs or {} if state else {}) for state in (step.old, step.new)]
    return StepSummary(
        op=intern(step.op),
        urn=intern(step.urn),
        type=intern(step.type),
        old=old,
        new=old if new == old else new,
        changes=changes,
        risks=tuple(risks_of(step, changes)),
        pods_change=step.op not in _UNCHANGED and templates_of(step.type, inputs[0]) != templates_of(step.type, inputs[1]),
        data_changes=step.type == _SECRET and _data_changes(step, *inputs),
        step=step if step.op in ("create", "delete") and has_digest(step.name) else None,
    )


def with_failure(summary: StepSummary, *, failed: bool, lost: bool) -> StepSummary:
    """`summary` of a step that failed; `lost` if its resource was deleted for a replacement that then failed."""
    # The first risk of a replacement is the replacement.
    risks = (gone(summary.urn, summary.type), *summary.risks[1:]) if lost else summary.risks
    return replace(summary, failed=failed, risks=risks)


def has_digest(name: str) -> bool:
    """True if `name` ends in a digest of the object's content."""
    return _NAME_WITH_DIGEST.search(name) is not None


def without_digest(name: str) -> str:
    """`name` without the digest at its end."""
    return _NAME_WITH_DIGEST.sub("", name)


@cache
def _is_read_whole(type_: str) -> bool:
    return _READ_WHOLE.fullmatch(type_) is not None


def _side(step: Step, state: State | None, *, last: bool) -> Side | None:
    """One side of `step`; what it refers to is kept of the last side alone."""
    if state is None:
        return None
    inputs = state.inputs or {}
    by_property = (urn for urns in (state.property_dependencies or {}).values() for urn in urns or ()) if last else ()
    names = (mapping(part, "metadata").get("name") for part in (state.inputs, state.outputs))
    kubernetes = step.type.startswith("kubernetes:")
    return Side(
        parent=intern(state.parent),
        custom=state.custom,
        protect=state.protect,
        inputs=inputs if _is_read_whole(step.type) else _read(step.type, inputs) if kubernetes else {},
        outputs=state.outputs if step.type == STACK_TYPE else None,
        dependencies=tuple(dict.fromkeys(map(intern, (*(state.dependencies or ()), *by_property)))) if last else (),
        names=tuple(dict.fromkeys(name for name in names if isinstance(name, str))) if kubernetes else (),
        secrets=tuple(dict.fromkeys(_secrets(inputs))) if kubernetes and last else (),
        pods=tuple(pod_sets(step.type, step.urn, step.name, inputs)),
    )


def _read(type_: str, inputs: dict[str, Any]) -> dict[str, Any]:
    spec = mapping(inputs, "spec")
    strategies = {key: spec[key] for key in _STRATEGIES if key in spec}
    labels = {"metadata": {"labels": mapping(inputs, "metadata", "labels")}} if type_ == _SECRET else {}
    return labels | ({"spec": strategies} if strategies else {})


def _secrets(inputs: dict[str, Any]) -> Iterator[str]:
    """The names of Secrets that an object refers to."""
    parts: list[tuple[Any, bool, int]] = [(inputs, False, 0)]
    while parts:
        value, refers, depth = parts.pop()
        if isinstance(value, list):
            if depth < _DEEPEST:
                parts.extend((item, refers, depth + 1) for item in value if isinstance(item, dict | list))
            continue
        if isinstance(name := value.get("secretName"), str):
            yield name
        if refers and isinstance(name := value.get("name"), str):
            yield name
        if depth < _DEEPEST:
            parts.extend(
                (item, key in _SECRET_REFERENCES, depth + 1)
                for key, item in value.items()
                if item.__class__ is dict or item.__class__ is list
            )


def _data_changes(step: Step, old: dict[str, Any], new: dict[str, Any]) -> bool:
    paths = (*step.keys, *step.diffs, *(step.detailed_diff or ()))
    if any(path.startswith(("data", "stringData", ".data")) for path in paths):
        return True
    return not paths and any(old.get(part) != new.get(part) for part in ("data", "stringData"))
