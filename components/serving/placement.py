"""Where a model's pods may go, in the input types of Kubernetes: the pool's taints, the user's terms."""

from __future__ import annotations

from typing import cast

from pulumi_kubernetes.core import v1 as core

from components.handles import NodeTarget
from components.serving.served_model import ServedModel


def tolerations(target: NodeTarget) -> list[core.TolerationArgs]:
    """One toleration for each taint of the pool, by exact value."""
    return [core.TolerationArgs(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect) for taint in target.taints]


def affinity(spec: ServedModel) -> core.AffinityArgs | None:
    """The user's own terms; the pool is selected by labels, taints and runtime class already."""
    # Generated input types read plain structures in the API's spelling as well, but say so in no annotation.
    return cast("core.AffinityArgs", dict(rendered)) if (rendered := spec.affinity.rendered()) else None
