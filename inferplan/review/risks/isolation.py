"""Running pods that a change isolates: without a NetworkPolicy that selects them they have every
connection, with one only what it allows.
"""

from collections.abc import Iterator

from inferplan.documents.text import clean, joined
from inferplan.kube.paths import mapping
from inferplan.kube.selectors import selects
from inferplan.review.reading.preview import NETWORK_POLICY, Preview, Side
from inferplan.review.steps.kinds import CRITICAL
from inferplan.review.steps.risk import Risk

_MOST_PODS = 6
_WORDS = {"Ingress": ("incoming", "ingress"), "Egress": ("outgoing", "egress")}


def isolated_pods(preview: Preview) -> Iterator[Risk]:
    """The risk of each policy that selects pods which ran without any policy on that side of their
    traffic.
    """
    policies = [each for each in preview.steps if each.type == NETWORK_POLICY]
    workloads = [each for each in preview.steps if each.before and each.after and each.after.pods]
    for policy in policies:
        if policy.after is None:
            continue
        for side in _sides(policy.after):
            lost = [
                f"{clean(each.kind)} {clean(each.name)}"
                for each in workloads
                if _selected(policy.after, each.after, side)
                and not any(_selected(old.before, each.before, side) for old in policies)
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
