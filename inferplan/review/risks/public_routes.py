"""Requests of public routes that move to another model, and those that a change leaves without a
replica.
"""

from collections.abc import Iterator, Mapping

from inferplan.documents.text import clean, joined
from inferplan.kube.facts import Subjects
from inferplan.kube.paths import mapping
from inferplan.review.risks.facts import StatedFacts
from inferplan.review.steps.kinds import CRITICAL, DISRUPTIVE
from inferplan.review.steps.risk import Risk

_MOST = 4


def route_risks(facts: StatedFacts) -> Iterator[Risk]:
    for (kind, name), new in sorted(facts.after.items()):
        old = facts.before.get((kind, name))
        # No client depends on a new route yet.
        if kind == "route" and old is not None:
            yield from _moved(name, _shares(old), _shares(new))
            yield from _unanswered(name, new, facts, _missing(old, facts.before, facts.before))


def _moved(name: str, old: Mapping[str, float], new: Mapping[str, float]) -> Iterator[Risk]:
    changes = {model: new.get(model, 0) - old.get(model, 0) for model in sorted({*old, *new})}
    gains = [
        f"{_percent(each)} of {clean(name)} moves to {model}"
        for model, each in changes.items()
        if each > 0
    ]
    if gains:
        cause = "; ".join(
            f"{model} {_percent(old.get(model, 0))} → {_percent(new.get(model, 0))}"
            for model, each in changes.items()
            if each
        )
        yield _risk(
            DISRUPTIVE,
            name,
            joined(gains, _MOST),
            f"shares: {cause}",
            "clients of the name get responses of another model",
        )


def _unanswered(
    name: str, route: Mapping[str, object], facts: StatedFacts, before: Mapping[str, str]
) -> Iterator[Risk]:
    """The risk of models of `route` without a replica that is ready when the gateway has changed."""
    shares = _shares(route)
    missing = {
        model: why
        for model, why in _missing(route, facts.after, facts.before).items()
        if model not in before
    }
    if missing:
        share = _percent(sum(shares[model] for model in missing))
        causes = joined([f"{model} {why}" for model, why in missing.items()], _MOST)
        consequence = (
            "requests fail (502) until a replica is ready: set fallback, or give the model no share"
            " before it serves"
        )
        yield _risk(
            CRITICAL,
            name,
            f"leaves {share} of its requests without a ready replica",
            causes,
            consequence,
        )


def _missing(route: Mapping[str, object], after: Subjects, before: Subjects) -> dict[str, str]:
    """Return the models with a share of `route` that have no ready replica, each with the reason;
    none if its fallback has one.
    """
    reasons = {model: _not_ready(model, after, before) for model in _shares(route)}
    fallback = route.get("fallback")
    if isinstance(fallback, str) and not _not_ready(clean(fallback), after, before):
        return {}
    return {model: reason for model, reason in reasons.items() if reason}


def _not_ready(model: str, after: Subjects, before: Subjects) -> str:
    stated = after.get(("model", model))
    if stated is None:
        return "is not declared"
    if stated.get("maxReplicas") == 0:
        return "has no replicas"
    return "" if ("model", model) in before else "is new and has to start first"


def _shares(route: Mapping[str, object]) -> dict[str, float]:
    shares = mapping(route, "shares")
    return {
        clean(str(model)): float(each)
        for model, each in shares.items()
        if isinstance(each, int | float)
    }


def _percent(share: float) -> str:
    return f"{share:.2f}".rstrip("0").rstrip(".") + "%"


def _risk(weight: int, name: str, what: str, cause: str, consequence: str) -> Risk:
    name = clean(name)
    return Risk(
        weight=weight,
        what=what,
        kind="route",
        name=name,
        urn=f"route {name}",
        cause=cause,
        consequence=consequence,
        order=0,
    )
