"""Running pods that a change isolates: without a NetworkPolicy that selects them they have every
connection, with one only what it allows.
"""

from collections.abc import Iterator

from inferplan.documents.text import clean, joined
from inferplan.kube.paths import mapping
from inferplan.kube.selectors import selects
from inferplan.review.reading.preview import NETWORK_POLICY, Preview, Side, StepSummary
from inferplan.review.steps.kinds import CRITICAL
from inferplan.review.steps.risk import Risk

_MOST_PODS = 6
_WORDS = {"Ingress": ("incoming", "ingress"), "Egress": ("outgoing", "egress")}


def isolated_pods(preview: Preview) -> Iterator[Risk]:
    """The risk of each policy that selects pods which ran without any policy on that side of their
    traffic.
    """
    policies = [each for each in preview.steps if each.type == NETWORK_POLICY]
    before: dict[_Place, list[Side]] = {}
    for policy in policies:
        if policy.before:
            before.setdefault(_place_of(policy.before), []).append(policy.before)
    workloads: dict[_Place, list[StepSummary]] = {}
    for each in preview.steps:
        if each.before and each.after:
            for place in _places_of(each.after):
                workloads.setdefault(place, []).append(each)
    for policy in policies:
        if policy.after is None:
            continue
        for side in _sides(policy.after):
            lost = [
                f"{clean(each.kind)} {clean(each.name)}"
                for each in workloads.get(_place_of(policy.after), ())
                if _selected(policy.after, each.after, side)
                and each.before
                and not any(
                    _selected(old, each.before, side)
                    for place in _places_of(each.before)
                    for old in before.get(place, ())
                )
            ]
            if lost:
                direction, rules = _WORDS[side]
                allowed = mapping(policy.after.inputs, "spec").get(rules)
                exception = f" but those that its spec.{rules} allows" if allowed else ""
                yield Risk(
                    weight=CRITICAL,
                    what=f"isolates running pods for {direction} connections",
                    kind=policy.kind,
                    name=clean(policy.name),
                    urn=clean(policy.urn),
                    cause=(
                        f"no NetworkPolicy of the stack selected {joined(lost, _MOST_PODS)} before"
                    ),
                    consequence=(
                        f"{joined(lost, _MOST_PODS)} {'lose' if len(lost) > 1 else 'loses'} every"
                        f" {direction} connection{exception}"
                    ),
                    order=1,
                )


_Place = tuple[str, tuple[str, str] | None]
"""A namespace, and the first label that a policy selects by, None without one: what pods and the
policies that may select them have in common.
"""


def _place_of(policy: Side) -> _Place:
    labels = mapping(policy.inputs, "spec", "podSelector", "matchLabels")
    first = next(((key, str(each)) for key, each in labels.items()), None)
    return str(mapping(policy.inputs, "metadata").get("namespace")), first


def _places_of(workload: Side) -> dict[_Place, None]:
    return {
        (str(each.namespace), label): None
        for each in workload.pods
        for label in (None, *dict(each.labels).items())
    }


def _sides(policy: Side) -> list[str]:
    spec = mapping(policy.inputs, "spec")
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return [each for each in _WORDS if each in types]


def _selected(policy: Side | None, workload: Side | None, side: str) -> bool:
    if policy is None or workload is None or side not in _sides(policy):
        return False
    namespace, selector = (
        mapping(policy.inputs, "metadata").get("namespace"),
        mapping(policy.inputs, "spec", "podSelector"),
    )
    return any(
        each.namespace == namespace and selects(selector, dict(each.labels))
        for each in workload.pods
    )
