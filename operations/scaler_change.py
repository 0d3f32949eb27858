"""Changes of a model's scaler that need two updates. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from operations.errors import OperationError

if TYPE_CHECKING:
    from operations.live import LiveCluster
    from rehearsal.engine.wire.recording import Recording

_SCALERS: Final = {"HorizontalPodAutoscaler": "autoscaling/v2", "ScaledObject": "keda.sh/v1alpha1"}
"""The API versions of scalers by kind."""


def declared_scalers(resources: Iterable[Any]) -> dict[str, str]:
    """The kind of scaler of each workload among registrations or states, by the workload's kind and name."""
    return dict(_by_target((each.inputs["kind"], each.inputs) for each in resources if each.inputs.get("kind") in _SCALERS))


def live_scaler_changes(live: LiveCluster, namespace: str, recording: Recording) -> list[str]:
    """The sentences of `scaler_changes` between a cluster and `recording`; none if the cluster's scalers may not be read.

    KEDA's own HorizontalPodAutoscalers do not count.
    """
    after = declared_scalers(recording)
    if not after:
        return []
    try:
        everything = [(kind, each) for kind, version in _SCALERS.items() for each in live.objects(version, kind, namespace).values()]
    except OperationError:
        return []
    before = _by_target((kind, each) for kind, each in everything if not each["metadata"].get("ownerReferences"))
    return list(scaler_changes(dict(before), after))


def scaler_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each workload whose scaler has one kind in `before` and another one in `after`."""
    for target in sorted(before.keys() & after.keys()):
        if before[target] != after[target]:
            yield (
                f"{target}: a {after[target]} replaces its {before[target]} in one update, and both exist until it ends. KEDA rejects a "
                "ScaledObject for a workload that a HorizontalPodAutoscaler scales. To avoid this, update twice: first with a number in "
                "replicas, then with the new signals."
            )


def _by_target(scalers: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, str]]:
    for kind, manifest in scalers:
        target = manifest["spec"]["scaleTargetRef"]
        yield f"{target.get('kind', 'Deployment')} {target['name']}", kind
