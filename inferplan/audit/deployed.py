"""The result of deploying one side of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field

from inferplan.audit.manifest import Manifest
from inferplan.audit.session import Rejection
from inferplan.rehearsal.cluster.api import Resource
from inferplan.rehearsal.engine.wait.object_events import Key


@dataclass(kw_only=True)
class Deployed:
    """The result of deploying one side: `manifests` are those that the cluster holds, `unready` why some are not ready."""

    manifests: dict[Key, Manifest] = field(default_factory=dict)
    resources: dict[Key, Resource] = field(default_factory=dict)
    declared: dict[Key, Manifest] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    skipped: list[Manifest] = field(default_factory=list)
    unready: dict[Key, str] = field(default_factory=dict)
    left: dict[Key, Manifest] = field(default_factory=dict)
    deleted: dict[Key, Manifest] = field(default_factory=dict)
    stuck: dict[Key, str] = field(default_factory=dict)
    recreated: dict[Key, str] = field(default_factory=dict)
    contested: dict[Key, list[tuple[str, str]]] = field(default_factory=dict)
    """Fields that another manager had set otherwise, with the API server's words."""
    dropped: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """Fields that the API server did not keep."""
    pods: set[Key] = field(default_factory=set)
    """DaemonSets that have pods."""
    surplus: dict[Key, str] = field(default_factory=dict)
    """Why objects were not ready between two waves; the following waves were not applied."""
