"""Numbers held against what needs them: memory against the weights that it has to load, quotas
against the declared pods.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from inferplan.documents.text import clean
from inferplan.kube.facts import Subjects
from inferplan.kube.paths import mapping
from inferplan.kube.pod_sets import PodSet
from inferplan.kube.quantity import amount
from inferplan.review.reading.preview import Preview, StepSummary
from inferplan.review.risks.facts import stated_facts
from inferplan.review.steps.kinds import CRITICAL
from inferplan.review.steps.risk import Risk

LESS_MEMORY, LOWER_QUOTA = "has less memory", "has a lower quota"
_GIB = 2**30


def held(risks: Iterable[Risk], preview: Preview) -> Iterator[Risk]:
    """`risks`, critical where a number is below what needs it."""
    steps, facts = {step.urn: step for step in preview.steps}, stated_facts(preview).after
    for each in risks:
        step = steps.get(each.urn)
        if step is None or step.after is None or each.what not in (LESS_MEMORY, LOWER_QUOTA):
            yield each
        elif each.what == LESS_MEMORY:
            yield _against_weights(each, step, _weights(facts, step))
        elif (risk := _against_pods(each, step, preview)) is not None:
            yield risk


def _weights(facts: Subjects, workload: StepSummary) -> str:
    """The declared size of the weights that the pods of `workload` load, "" if it is not known."""
    size = mapping(facts.get(("model", workload.name)), "weights").get("size")
    return size if isinstance(size, str) and amount(size) is not None else ""


def _against_weights(risk: Risk, step: StepSummary, size: str) -> Risk:
    memory = sum(
        (each.memory_gib * each.per_replica for each in (step.after.pods if step.after else ())),
        Decimal(0),
    )
    if not size or memory * _GIB >= (amount(size) or 0):
        return risk
    consequence = "the weights do not fit: the server is killed while it loads them (OOMKilled)"
    return replace(
        risk,
        weight=CRITICAL,
        cause=f"{risk.cause}, below the {clean(size)} of weights",
        consequence=consequence,
    )


def _against_pods(risk: Risk, step: StepSummary, preview: Preview) -> Risk | None:
    """`risk`, critical below what is declared; None for a new quota with room for a rollout of all
    of it. Servers free accelerators first.
    """
    inputs: dict[str, Any] = step.after.inputs if step.after else {}
    namespace = mapping(inputs, "metadata").get("namespace")
    pods = preview.pods.get(str(namespace), [])
    for key, value in sorted(mapping(inputs, "spec", "hard").items()):
        limit, needed = amount(value), _needed(key, pods)
        if limit is not None and needed > limit:
            consequence = (
                f"{needed:f} are declared: the others are rejected when they start the next time"
            )
            return replace(
                risk,
                weight=CRITICAL,
                cause=f"{risk.cause}; {clean(key)} {clean(str(value))} for {needed:f}",
                consequence=consequence,
            )
    stated = {
        key: amount(value) or 0
        for key, value in mapping(inputs, "spec", "hard").items()
        if clean(key) in risk.cause
    }
    others = {
        key: limit
        for key, limit in stated.items()
        if not (key.startswith("requests.") and "/" in key)
    }
    has_room = all(0 < 2 * _needed(key, pods) <= limit for key, limit in others.items())
    is_new = step.before is None or (": nothing" in risk.cause and not others)
    return None if is_new and has_room and stated else risk


def _needed(key: str, pods: Iterable[PodSet]) -> Decimal:
    """The part of the quota `key` that the declared pods use; 0 for a quota of something else."""
    name = key.removeprefix("requests.").removeprefix("limits.")
    used = Decimal(0)
    for each in pods:
        if key in ("pods", "count/pods"):
            used += each.replicas
        elif name == "memory":
            used += each.memory_gib * each.replicas * _GIB
        elif name == each.resource:
            used += each.accelerators * each.replicas
    return used
