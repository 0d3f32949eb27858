"""Spreads pods over zones and nodes, without blocking pods that cannot be spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from kube.names import HOSTNAME_LABEL, ZONE_LABEL


def spread(labels: Mapping[str, str], *, match_label_keys: Sequence[str] | None = None) -> list[core.TopologySpreadConstraintArgs]:
    """Return constraints that spread the pods with `labels`; with `match_label_keys`, only pods with the same values of these labels count."""
    return [
        core.TopologySpreadConstraintArgs(
            max_skew=1,
            topology_key=key,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=meta.LabelSelectorArgs(match_labels=dict(labels)),
            match_label_keys=None if match_label_keys is None else list(match_label_keys),
        )
        for key in (ZONE_LABEL, HOSTNAME_LABEL)
    ]
