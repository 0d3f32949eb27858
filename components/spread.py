"""Pods of one kind in different zones and on different nodes, where there are several; it never keeps a pod from starting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta


def spread(labels: Mapping[str, str], *, match_label_keys: Sequence[str] | None = None) -> list[core.TopologySpreadConstraintArgs]:
    """Spreads pods that carry `labels`; only those that also share its own values of `match_label_keys` count for a pod."""
    return [
        core.TopologySpreadConstraintArgs(
            max_skew=1,
            topology_key=key,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=meta.LabelSelectorArgs(match_labels=dict(labels)),
            match_label_keys=None if match_label_keys is None else list(match_label_keys),
        )
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
