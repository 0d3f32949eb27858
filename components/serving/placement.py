"""Where a model's pods may go, in the input types of Kubernetes: the pool's taints, the user's terms, a spread over zones and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.handles import NodeTarget
from components.serving.served_model import ServedModel


def tolerations(target: NodeTarget) -> list[core.TolerationArgs]:
    """One toleration for each taint of the pool, by exact value."""
    return [core.TolerationArgs(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect) for taint in target.taints]


def affinity(spec: ServedModel) -> core.AffinityArgs | None:
    """The user's own terms; the pool is selected by labels, taints and runtime class already."""
    # Generated input types read plain structures in the API's spelling as well, but say so in no annotation.
    return cast("core.AffinityArgs", dict(rendered)) if (rendered := spec.affinity.rendered()) else None


def spread(labels: Mapping[str, str]) -> list[core.TopologySpreadConstraintArgs]:
    """Pods that carry `labels` go to different zones, and nodes, where there are several."""
    return [
        core.TopologySpreadConstraintArgs(
            max_skew=1,
            topology_key=key,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=meta.LabelSelectorArgs(match_labels=dict(labels)),
        )
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
