"""Scalers that are declared and gone: they no longer explain the replicas of their workloads."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inferplan.kube.field_owners import SCALED, SCALER_BOUNDS
from inferplan.kube.paths import mapping
from inferplan.operations.live import LiveCluster, ObjectKey


def scalerless(declared: Iterable[tuple[ObjectKey, Mapping[str, Any]]], live: LiveCluster) -> Callable[[ObjectKey], tuple[str, ...]]:
    """A function of a workload: its paths that its declared scaler would decide about, if that does not exist."""
    scalers = ((key, mapping(inputs, "spec", "scaleTargetRef")) for key, inputs in declared if key.kind in SCALER_BOUNDS)
    # KEDA scales a Deployment if no kind is declared.
    orphans = {(key.namespace, to.get("kind", "Deployment"), to.get("name")) for key, to in scalers if live.find(key) is None}
    return lambda key: SCALED.get(key.kind, ()) if (key.namespace, key.kind, key.name) in orphans else ()
