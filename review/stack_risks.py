"""All risks of a stack: those of its steps, and those that only several resources together show.

Several resources together show a replacement under another name, an unused object, downtime and an overcommitted pool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from review.access import lost_access
from review.capacity import PoolCapacity
from review.figures import Figures
from review.guards import Guards, guard_risks
from review.kinds import DISRUPTIVE, ROUTINE, owned
from review.preview import SECRET, Preview, Side, StepSummary, without_digest
from review.risk import REPLACED, Risk, once, risks_of
from review.rollout import Rollout
from review.text import clean

_GOES = ("delete", "discard")


def stack_risks(preview: Preview, figures: Figures, guards: Guards | None) -> tuple[Risk, ...]:
    """The risks of a stack, the worst first, each once."""
    direct = sorted(_softened(_step_risks(preview.steps), preview), key=lambda each: each.order)
    risks = once((*lost_access(preview), *direct, *guard_risks(preview, guards)))
    risks += _outages(figures, reported={each.urn for each in risks if each.what == REPLACED})
    return tuple(sorted(risks, key=lambda each: (each.weight, not each.is_rejected, each.order, each.what, each.urn, each.cause)))


def _softened(risks: Iterable[Risk], preview: Preview) -> Iterator[Risk]:
    """Yield `risks`, with those of resources that are removed together with all their users as routine.

    This applies to a Secret that no pod uses any longer, and to resources of a component that is removed as a whole: the
    component's own risk names who loses access.
    """
    removals = {step.urn: step for step in preview.steps if step.op in _GOES}
    stays = _used(step.side for step in preview.steps if step.op not in _GOES) if removals else set()
    went = _used(step.old for step in removals.values())
    for each in risks:
        step = removals.get(each.urn) if each.what == "deleted" and not each.is_rejected else None
        if step is None or not owned(step.type):
            yield each
        elif step.type == SECRET:
            names = _names(step)
            unused = not stays.isdisjoint(names) or went.isdisjoint(names)
            yield each if unused else replace(each, weight=ROUTINE, consequence="no pod of the stack uses it any longer")
        elif (owner := removals.get(step.parent)) is not None and not (owner.old and owner.old.custom) and stays.isdisjoint(_names(step)):
            yield replace(each, weight=ROUTINE, consequence=f"goes with {clean(owner.kind)} {clean(owner.name)}")
        else:
            yield each


def _names(step: StepSummary) -> set[str]:
    """Names by which other resources refer to `step`: its URN and the name of its Secret."""
    return {step.urn, *(f"name {name}" for name in (step.old.names if step.old else ()))}


def _used(sides: Iterable[Side | None]) -> set[str]:
    """URNs and names of Secrets that `sides` refer to."""
    references: set[str] = set()
    for side in sides:
        if side is not None:
            references.update(side.dependencies)
            references.update(f"name {name}" for name in side.secrets)
    return references


def _step_risks(steps: Sequence[StepSummary]) -> Iterator[Risk]:
    """The risks of `steps`; a deletion and the creation that replaces it count as one replacement."""
    deletions: dict[tuple[str, str, str], list[StepSummary]] = {}
    creations: dict[tuple[str, str, str], list[StepSummary]] = {}
    for each in steps:
        if each.step is not None:
            (deletions if each.op == "delete" else creations).setdefault(_key(each), []).append(each)
    pairs = {
        old[0].urn: new[0].step
        for key, old in deletions.items()
        if len(old) == 1 and len(new := creations.get(key, [])) == 1 and new[0].step
    }
    replacing = {new.urn for new in pairs.values()}
    for each in steps:
        new = pairs.get(each.urn) if each.op == "delete" else None
        if new is not None and each.step is not None:
            yield from risks_of(new.model_copy(update={"op": "replace", "old": each.step.old, "keys": ("metadata.name",)}), ())
        elif each.op != "create" or each.urn not in replacing:
            yield from each.risks


def _key(step: StepSummary) -> tuple[str, str, str]:
    return step.type, step.parent, without_digest(step.name)


def _outages(figures: Figures, *, reported: Collection[str] = ()) -> Iterator[Risk]:
    """The risks in the figures of a stack; no downtime for resources whose URN is in `reported`."""
    for each in figures.forecasts:
        if each.has_downtime and not each.stuck and each.urn not in reported:
            yield _downtime(each)
    for pool in figures.short:
        yield _overcommitment(pool)


def _downtime(rollout: Rollout) -> Risk:
    minutes = "until a new one is ready" if rollout.minutes is None else f"for up to {rollout.minutes} minutes"
    return Risk(
        weight=DISRUPTIVE,
        what="has downtime during the rollout",
        kind=clean(rollout.kind),
        name=clean(rollout.name),
        urn=clean(rollout.urn),
        cause=f"{rollout.manner}, {rollout.unavailable} of {rollout.replicas} replicas at a time",
        consequence=f"no replica is ready {minutes}",
    )


def _overcommitment(pool: PoolCapacity) -> Risk:
    missing = f"{pool.demand} {clean(pool.resource)} requested, {pool.offered} offered"
    return Risk(
        weight=DISRUPTIVE,
        what="is overcommitted",
        kind="pool",
        name=clean(pool.pool),
        urn=f"pool {clean(pool.pool)}",
        cause=missing,
        consequence="pods stay Pending until it has more nodes or smaller requests",
    )
