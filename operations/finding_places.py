"""Where a finding comes from: the key of the stack file that made the resource, with its line. It judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.engine.evaluate import Outcome
    from rehearsal.engine.wire.recording import Recording, Registration
    from stackfile.reader import StackFile

# The section of the stack file that each folder of components is declared by.
_SECTIONS = {
    "serving": "models",
    "preheat": "models",
    "storage": "storage",
    "nodes": "nodePools",
    "queue": "queues",
    "gateway": "gateway",
    "namespace": "namespace",
    "cluster": "cluster",
    "monitoring": "monitoring",
    "benchmark": "benchmark",
}
# What to change below the section or its entry, by rule.
_KEYS = {
    "network-require-tls": ("tls",),
    "network-require-ingress-host": ("host",),
    "network-require-route-timeout": ("timeoutSeconds",),
    "image-disallow-latest": ("image",),
    "image-require-digest": ("image",),
    "image-restrict-registries": ("image",),
    "model-require-vllm-floor": ("image",),
    "model-require-triton-floor": ("image",),
    "model-require-revision": ("weights", "revision"),
    "model-disallow-trust-remote-code": ("trustRemoteCode",),
    "pod-disallow-literal-secrets": ("env",),
    "stack-require-matching-pool": ("pool",),
    "stack-require-pool-capacity": ("replicas",),
    "stack-require-room-for-rollout": ("rollout",),
    "stack-require-startup-budget-for-model": ("weights", "size"),
}


def finding_places(recording: Recording, file: StackFile, outcomes: Iterable[Outcome]) -> dict[tuple[str, str], str]:
    """By rule and URN, `file:line: key` of each outcome whose resource was made by an entry of the stack file."""
    by_urn = {each.urn: each for each in recording}
    places: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        path = _path(by_urn, by_urn.get(outcome.urn), file)
        if not path:
            continue
        path = (*path, *_KEYS.get(outcome.rule.id, ()))
        place = file.locate(path)
        line = f":{place.line}" if place else ""
        places[outcome.rule.id, outcome.urn] = f"{file.shown_path}{line}: {'.'.join(path)}"
    return places


def _path(by_urn: dict[str, Registration], each: Registration | None, file: StackFile) -> tuple[str, ...]:
    """The section, and the entry in it, of the nearest component above a resource that the stack file declares."""
    while each is not None:
        package, _, rest = each.type.partition(":")
        section = _SECTIONS.get(rest.partition(":")[0]) if package == "inferplan" else None
        if section is not None:
            return (section, each.name) if file.written_keys(section) & {each.name} else (section,)
        each = by_urn.get(each.parent)
    return ()
