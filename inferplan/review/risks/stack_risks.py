"""All risks of a stack: those of its steps, and those that only several resources together show."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from inferplan.documents.text import clean, joined
from inferplan.kube.facts import STATED_CONTENT, STATED_WATCH
from inferplan.pulumi_engine.reading.events import STACK_TYPE, type_of
from inferplan.review.figures import Figures
from inferplan.review.reading.disclosed import disclosed_step
from inferplan.review.reading.preview import (
    CONFIG_MAP,
    SECRET,
    Preview,
    Side,
    StepSummary,
    without_digest,
)
from inferplan.review.risks.access import lost_access
from inferplan.review.risks.facts import StatedFacts, fact_risks, stated_facts
from inferplan.review.risks.guards import Guards, guard_risks
from inferplan.review.risks.isolation import isolated_pods
from inferplan.review.risks.limits import held
from inferplan.review.risks.public_routes import route_risks
from inferplan.review.steps.kinds import DISRUPTIVE, ROUTINE, is_known, owned
from inferplan.review.steps.risk import CHANGES, GOES, REPLACED, Risk, change_text, risks_of
from inferplan.review.steps.same_risks import once

ENTRY_POINT, COSTS_MORE = "a new entry point", "costs more"
_ROUTES = ("Ingress", "HTTPRoute", "GRPCRoute")


def stack_risks(
    preview: Preview, figures: Figures, guards: Guards | None, *, others: Iterable[Risk] = ()
) -> tuple[Risk, ...]:
    facts = stated_facts(preview)
    stated = sorted(fact_risks(preview, facts), key=lambda each: each.order)
    # The order of an engine's events differs from run to run. A component comes before its objects,
    # which often have the same risk.
    direct = sorted(
        held(_softened(_accepted(preview, guards), preview, facts), preview),
        key=lambda each: (each.order, each.urn.count("$"), each.urn),
    )
    risks = once(
        (
            *lost_access(preview, facts),
            *route_risks(facts),
            *stated,
            *isolated_pods(preview),
            *direct,
            *guard_risks(preview, guards),
            *others,
        )
    )
    risks += _outages(
        figures, preview, reported={each.urn for each in risks if each.what == REPLACED}
    )
    return tuple(
        sorted(
            risks,
            key=lambda each: (
                each.weight,
                not each.is_rejected,
                each.order,
                each.what,
                each.urn,
                each.cause,
            ),
        )
    )


def _accepted(preview: Preview, guards: Guards | None) -> Iterator[Risk]:
    """The risks of the steps, without those of new or changed resources of a type that the settings
    of the stack accept.
    """
    accepted = guards.accepted_types if guards else frozenset()
    types = {step.urn: step.type for step in preview.steps}
    has_users = any(step.before is not None for step in preview.steps if step.type != STACK_TYPE)
    new = {step.urn for step in preview.steps if step.op in ("create", "import")}
    # Facts state the entry points of a component of ours.
    stated = {step.urn for step in preview.steps if STATED_CONTENT.fullmatch(type_of(step.parent))}
    for each in _step_risks(preview.steps):
        is_unknown = not is_known(types.get(each.urn, ""))
        if is_unknown and types.get(each.urn) in accepted and each.what in ("created", CHANGES):
            continue
        opens_entry = ENTRY_POINT in each.consequence
        if opens_entry and each.urn in stated and each.urn in new:
            continue
        if (
            has_users
            or is_unknown
            or opens_entry
            or each.weight != DISRUPTIVE
            or each.urn not in new
        ):
            yield each


def _softened(risks: Iterable[Risk], preview: Preview, facts: StatedFacts) -> Iterator[Risk]:
    """Yield `risks`, with those of resources that are removed together with all their users as
    routine.
    """
    removals = {step.urn: step for step in preview.steps if step.op in GOES}
    stays = _used(step.side for step in preview.steps if step.op not in GOES) if removals else set()
    went = _used(step.old for step in removals.values())
    hosts = [
        {each.get("host") for (kind, _), each in side.items() if kind == "gateway"}
        for side in (facts.before, facts.after)
    ]
    for each in risks:
        step = removals.get(each.urn) if each.what == "deleted" and not each.is_rejected else None
        owner = None if step is None else removals.get(step.parent)
        if step is not None and owner is not None and step.kind in _ROUTES and hosts[0] & hosts[1]:
            yield replace(
                each,
                weight=ROUTINE,
                consequence="another route of the gateway serves the same host",
            )
        elif (
            step is not None
            and owner is not None
            and owned(step.type)
            and STATED_WATCH.fullmatch(owner.type)
        ):
            yield replace(
                each,
                consequence=(
                    "what it watches is no longer watched: metrics, alerts or the access to"
                    " them end"
                ),
            )
        elif step is None or not owned(step.type):
            yield each
        elif step.type in (SECRET, CONFIG_MAP):
            names = _names(step)
            keeps_weight = not stays.isdisjoint(names) or (
                step.type == SECRET and went.isdisjoint(names)
            )
            yield (
                each
                if keeps_weight
                else replace(
                    each, weight=ROUTINE, consequence="no pod of the stack uses it any longer"
                )
            )
        elif (
            owner is not None
            and not (owner.old and owner.old.custom)
            and stays.isdisjoint(_names(step))
        ):
            yield replace(
                each,
                weight=ROUTINE,
                consequence=f"goes with {clean(owner.kind)} {clean(owner.name)}",
            )
        else:
            yield each


def _names(step: StepSummary) -> set[str]:
    """Names by which other resources refer to `step`: its URN and the name of its Secret."""
    return {step.urn, *(f"name {name}" for name in (step.old.names if step.old else ()))}


def _used(sides: Iterable[Side | None]) -> set[str]:
    references: set[str] = set()
    for side in sides:
        if side is not None:
            references.update(side.dependencies)
            references.update(f"name {name}" for name in side.secrets)
    return references


def _step_risks(steps: Sequence[StepSummary]) -> Iterator[Risk]:
    """The risks of `steps`; a deletion and the creation that replaces it count as one replacement."""
    halves: dict[tuple[str, str, str], tuple[list[StepSummary], list[StepSummary]]] = {}
    for each in steps:
        if each.step is not None:
            deletions, creations = halves.setdefault(
                (each.type, each.parent, without_digest(each.name)), ([], [])
            )
            (deletions if each.op == "delete" else creations).append(each)
    pairs = {old[0].urn: new[0].step for old, new in halves.values() if len(old) == len(new) == 1}
    replacing = {new.urn for new in pairs.values() if new}
    for each in steps:
        new = pairs.get(each.urn) if each.op == "delete" else None
        if new is not None and each.step is not None:
            replacement = new.model_copy(
                update={"op": "replace", "old": each.step.old, "keys": ("metadata.name",)}
            )
            yield from risks_of(disclosed_step(replacement), (), replacement)
        elif each.op != "create" or each.urn not in replacing:
            yield from each.risks


def _outages(figures: Figures, preview: Preview, *, reported: Collection[str]) -> Iterator[Risk]:
    """The risks in the figures of a stack; no downtime for resources whose URN is in `reported`."""
    if figures.increase:
        yield Risk(
            weight=DISRUPTIVE,
            what=COSTS_MORE,
            kind="stack",
            name=clean(preview.stack),
            urn="",
            cause=figures.increase,
            consequence=(
                "these are monthly costs, without usage-based charges: budget.reviewPercent and"
                " budget.reviewUsd are the thresholds"
            ),
        )
    changes = {step.urn: step.changes for step in preview.changed}
    for each in figures.forecasts:
        if each.has_downtime and not each.stuck and each.urn not in reported:
            minutes = (
                "until a new one is ready"
                if each.minutes is None
                else f"for up to {each.minutes} minutes"
            )
            yield Risk(
                weight=DISRUPTIVE,
                what="has downtime during the rollout",
                kind=clean(each.kind),
                name=clean(each.name),
                urn=clean(each.urn),
                cause=(
                    f"{joined([*map(change_text, changes.get(each.urn, ()))], 2, '; ')};"
                    f" {each.manner}, {each.unavailable} of {each.replicas} replicas at a time"
                ),
                consequence=f"no replica is ready {minutes}",
            )
    for pool in figures.short:
        yield Risk(
            weight=DISRUPTIVE,
            what="is overcommitted",
            kind="pool",
            name=clean(pool.pool),
            urn=f"pool {clean(pool.pool)}",
            cause=clean(pool.shortage),
            consequence="pods stay Pending until it has more nodes or smaller requests",
        )
