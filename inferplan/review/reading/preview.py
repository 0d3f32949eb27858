"""One run of the engine as a report sees it: summaries of what happens to each resource, once, and
how the run ended.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from sys import intern
from typing import Any, TypeVar

from inferplan.documents.text import clean
from inferplan.kube.disclosure.disclosure import message
from inferplan.kube.facts import OUTPUT as FACTS
from inferplan.kube.paths import mapping
from inferplan.kube.pod_sets import PodSet, pod_sets, templates_of
from inferplan.pulumi_engine.reading.changes import PropertyChange, output_changes, property_changes
from inferplan.pulumi_engine.reading.events import (
    STACK_TYPE,
    DiagnosticEvent,
    PolicyEvent,
    PolicyRemediationEvent,
    State,
    Step,
    kind_of,
    name_of,
)
from inferplan.review.reading.disclosed import disclosed_step, hidden_in, with_shared_parts
from inferplan.review.steps.risk import GOES, Risk, gone, risks_of

SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type, not a secret
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
# Capacity, cost, access and rollouts read these types whole, and of other objects only how they are
# rolled out.
_READ_WHOLE = re.compile(
    r"pulumi:providers:aws|.*:NodePool|kubernetes:core/v1:(Node|Service|ResourceQuota)|kubernetes:networking\.k8s\.io/v1:(Ingress|NetworkPolicy)"
    r"|kubernetes:(keda\.sh/v1alpha1:ScaledObject|autoscaling/v2:HorizontalPodAutoscaler)"
    r"|aws:ebs/volume:Volume|aws:eks/(nodeGroup:NodeGroup|cluster:Cluster)|aws:ec2/launchTemplate:LaunchTemplate|.*:NodeClass"
    r"|aws:efs/backupPolicy:BackupPolicy|kubernetes:resource\.k8s\.io/v1:ResourceClaim(Template)?"
)
_STRATEGIES = ("strategy", "updateStrategy", "upgradeStrategy", "rolloutStrategy")
_REFERENCES = frozenset(
    {
        "secretName",
        "secretRef",
        "secretKeyRef",
        "imagePullSecrets",
        "secret",
        "configMap",
        "configMapRef",
        "configMapKeyRef",
    }
)
_DEEPEST = 30
_Event = TypeVar("_Event", DiagnosticEvent, PolicyEvent)
_UNCHANGED = ("same", "read")
_EXISTED = ("same", "read", "update", "replace", "delete", "discard")
_NAME_WITH_DIGEST = re.compile(r"-(?=[0-9a-f]*[0-9])[0-9a-f]{8,}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A resource before or after a step: the `inputs` that figures read, its `names` in the
    cluster, and what the last side refers to.
    """

    parent: str
    custom: bool
    protect: bool
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    dependencies: tuple[str, ...]
    names: tuple[str, ...]
    secrets: tuple[str, ...]
    pods: tuple[PodSet, ...]
    facts: Any = None
    """The real facts of a stack, which rows of tables match; `outputs` has those that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """The part of a step that a report needs; `step` is kept if it may be one half of a replacement
    under another name.
    """

    op: str
    urn: str
    type: str
    old: Side | None
    new: Side | None
    changes: tuple[PropertyChange, ...] = ()
    risks: tuple[Risk, ...] = ()
    pods_change: bool = False
    data_changes: bool = False
    step: Step | None = None
    hidden: frozenset[str] = frozenset()
    """Values that no message of the run may repeat."""
    failed: bool = False

    @property
    def name(self) -> str:
        return name_of(self.urn)

    @property
    def kind(self) -> str:
        return kind_of(self.type)

    @property
    def side(self) -> Side | None:
        """The resource after the step, or before it if there is none after."""
        return self.new or self.old

    @property
    def before(self) -> Side | None:
        """The resource before the step, None if it did not exist."""
        if self.op not in _EXISTED:
            return None
        # In the first plan of a stack the old state of an unchanged resource may be left out.
        return self.old or (self.new if self.op == "same" else None)

    @property
    def after(self) -> Side | None:
        """The resource after the step, None if it is gone."""
        return None if self.op in GOES else self.side

    @property
    def parent(self) -> str:
        """URN of the parent, "" for the stack itself."""
        return self.side.parent if self.side else ""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """One stream or digest, read; `incomplete` says why it cannot be trusted, `foreign` that
    untrusted code made it.

    `has_final_outputs` is true if a run that failed, for example at a mandatory rule, stated all of
    the stack's outputs before.
    """

    source: str
    project: str
    stack: str
    steps: tuple[StepSummary, ...]
    counts: dict[str, int]
    planner: str = "pulumi"
    against: str = ""
    form: str = "events"
    foreign: bool = False
    notes: tuple[str, ...] = ()
    is_preview: bool = True
    refreshed: bool = False
    has_final_outputs: bool = False
    result: str = ""
    incomplete: str = ""
    failed_operations: int = 0
    config: dict[str, str] = field(default_factory=dict)
    against_config: dict[str, str] | None = None
    policy_packs: dict[str, str] = field(default_factory=dict)
    judged: int | None = None
    """The number of resources that the policy pack states it judged."""
    policies: tuple[PolicyEvent, ...] = ()
    unstated: tuple[PolicyEvent, ...] = ()
    """Violations that the pack of the report finds in the run, and that the run does not state."""
    remediations: tuple[PolicyRemediationEvent, ...] = ()
    diagnostics: tuple[DiagnosticEvent, ...] = ()

    @cached_property
    def pods(self) -> dict[str, list[PodSet]]:
        """The declared pods by namespace."""
        pods: dict[str, list[PodSet]] = {}
        for step in self.steps:
            for each in step.after.pods if step.after else ():
                pods.setdefault(str(each.namespace), []).append(each)
        return pods

    @property
    def changed(self) -> tuple[StepSummary, ...]:
        return tuple(step for step in self.steps if step.op not in _UNCHANGED)

    @property
    def output_changes(self) -> tuple[PropertyChange, ...]:
        """The changes in the stack's outputs, which only the stack's own event has."""
        step = next((step for step in self.steps if step.type == STACK_TYPE), None)
        old, new = (
            side.outputs if side else {}
            for side in ((step.old, step.new) if step else (None, None))
        )
        if self.incomplete or self.form == "digest":
            # A cut stream may end before it has the new outputs, and a digest never has them:
            # absent outputs are not deleted.
            old = {key: value for key, value in old.items() if key in new}
        # Facts are compared one by one, see `risks.facts`.
        return output_changes(
            *({key: value for key, value in side.items() if key != FACTS} for side in (old, new))
        )


def summary_of(raw: Step) -> StepSummary:
    raw = with_shared_parts(raw)
    step = disclosed_step(raw)
    is_unchanged = step.op in _UNCHANGED
    changes = () if is_unchanged or step.type == STACK_TYPE else property_changes(step)
    old = _side(step, step.old, raw.old, last=step.new is None)
    new = _side(step, step.new, raw.new, last=True)
    return StepSummary(
        op=intern(step.op),
        urn=intern(step.urn),
        type=intern(step.type),
        old=old,
        new=old if new == old else new,
        changes=changes,
        risks=tuple(risks_of(step, changes, raw)),
        pods_change=not is_unchanged
        and templates_of(step.type, step.old_inputs) != templates_of(step.type, step.new_inputs),
        data_changes=step.type == SECRET and _data_changes(step),
        step=(
            raw
            if step.op in ("create", "delete") and without_digest(step.name) != step.name
            else None
        ),
        hidden=hidden_in(raw, step),
    )


def with_failure(summary: StepSummary, *, failed: bool, lost: bool) -> StepSummary:
    """`summary` of a step that failed; `lost` if its resource was deleted for a replacement that
    then failed.
    """
    # The first risk of a replacement is the replacement.
    risks = (gone(summary.urn, summary.type), *summary.risks[1:]) if lost else summary.risks
    return replace(summary, failed=failed, risks=risks)


def disclosed_messages(
    events: Iterable[_Event], steps: Sequence[StepSummary]
) -> tuple[_Event, ...]:
    """`events` with messages that show no hidden value of `steps`. The name of a resource is shown,
    even if a hidden value is equal to it.
    """
    names = {
        name
        for step in steps
        for side in (step.old, step.new)
        for name in (step.name, step.type, step.kind, step.urn, *(side.names if side else ()))
    }
    hidden = {each for step in steps for each in step.hidden} - names
    return tuple(
        each.model_copy(update={"message": message(clean(each.message), hidden, names)})
        for each in events
    )


def without_digest(name: str) -> str:
    """`name` without the digest of the object's content at its end."""
    return _NAME_WITH_DIGEST.sub("", name)


_read_whole = cache(_READ_WHOLE.fullmatch)


def _side(step: Step, state: State | None, raw: State | None, *, last: bool) -> Side | None:
    """One side of `step`; what it refers to is kept of the last side alone, as `raw` names it: it
    is matched, and never shown.
    """
    if state is None or raw is None:
        return None
    real = raw.inputs or {}
    by_property = (
        (urn for urns in (state.property_dependencies or {}).values() for urn in urns or ())
        if last
        else ()
    )
    names = (mapping(part, "metadata").get("name") for part in (state.inputs, state.outputs))
    kubernetes = step.type.startswith("kubernetes:")
    return Side(
        parent=intern(state.parent),
        custom=state.custom,
        protect=state.protect,
        # Figures and selectors read the real values, and show none but those that are public.
        inputs=real if _read_whole(step.type) else _read(step.type, real) if kubernetes else {},
        outputs=(state.outputs if step.type == STACK_TYPE else None) or {},
        dependencies=(
            tuple(dict.fromkeys(map(intern, (*(state.dependencies or ()), *by_property))))
            if last
            else ()
        ),
        names=(
            tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
            if kubernetes
            else ()
        ),
        secrets=tuple(dict.fromkeys(_secrets(real))) if kubernetes and last else (),
        pods=tuple(pod_sets(step.type, step.urn, step.name, real)),
        facts=(raw.outputs or {}).get(FACTS) if step.type == STACK_TYPE else None,
    )


def _read(type_: str, inputs: dict[str, Any]) -> dict[str, Any]:
    spec = mapping(inputs, "spec")
    strategies = {key: spec[key] for key in _STRATEGIES if key in spec}
    labels = (
        {"metadata": {"labels": mapping(inputs, "metadata", "labels")}} if type_ == SECRET else {}
    )
    return labels | ({"spec": strategies} if strategies else {})


def _secrets(inputs: dict[str, Any]) -> Iterator[str]:
    parts: list[tuple[Any, bool, int]] = [(inputs, False, 0)]
    while parts:
        value, refers, depth = parts.pop()
        if isinstance(value, list):
            if depth < _DEEPEST:
                parts.extend(
                    (item, refers, depth + 1) for item in value if isinstance(item, dict | list)
                )
            continue
        if isinstance(name := value.get("secretName"), str):
            yield name
        if refers and isinstance(name := value.get("name"), str):
            yield name
        if depth < _DEEPEST:
            parts.extend(
                (item, key in _REFERENCES, depth + 1)
                for key, item in value.items()
                if item.__class__ is dict or item.__class__ is list
            )


def _data_changes(step: Step) -> bool:
    paths = (*step.keys, *step.diffs, *step.detailed_diff)
    if any(path.startswith(("data", "stringData", ".data")) for path in paths):
        return True
    return not paths and any(
        step.old_inputs.get(part) != step.new_inputs.get(part) for part in ("data", "stringData")
    )
