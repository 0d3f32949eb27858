"""The result of deploying one side of an audit, and the change from one side to the other."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.session import Session
from inferplan.audit.templates import templates
from inferplan.kube.paths import mapping
from inferplan.kube.selectors import selects
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding


@dataclass(kw_only=True)
class Deployed:
    """The result of deploying one side: `manager` is the deployer's field manager, `manifests` are
    those that the cluster holds, `unready` why some are not ready.
    """

    manager: str = ""
    manifests: dict[Key, Manifest] = field(default_factory=dict)
    declared: dict[Key, Manifest] = field(default_factory=dict)
    rejections: list[Finding] = field(default_factory=list)
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
    attached: frozenset[Key] = frozenset()
    """Claims that pods on two nodes held."""
    surplus: dict[Key, str] = field(default_factory=dict)
    """Why objects were not ready between two waves; the following waves were not applied."""

    @property
    def versioned(self) -> list[tuple[str, Key]]:
        """The objects of the cluster, each with its API version."""
        return [(each.api_version, key) for key, each in self.manifests.items()]

    def selected(self, namespace: str, selector: Mapping[str, Any]) -> dict[Key, Manifest]:
        """The manifests in `namespace` with pods that a label selector selects; call it when
        everything is deployed.
        """
        labels = mapping(selector, "matchLabels")
        several = [
            self._by_label[namespace, str(name), str(value)] for name, value in labels.items()
        ]
        nearby = min(several, key=len) if several else self._by_namespace[namespace]
        return {
            key: each
            for key, each in nearby.items()
            if any(
                selects(selector, mapping(template, "metadata", "labels"))
                for _, template in templates(each.body)
            )
        }

    @cached_property
    def _by_namespace(self) -> defaultdict[str, dict[Key, Manifest]]:
        index: defaultdict[str, dict[Key, Manifest]] = defaultdict(dict)
        for key, each in self.manifests.items():
            index[key.namespace][key] = each
        return index

    @cached_property
    def _by_label(self) -> defaultdict[tuple[str, str, str], dict[Key, Manifest]]:
        index: defaultdict[tuple[str, str, str], dict[Key, Manifest]] = defaultdict(dict)
        for key, each in self.manifests.items():
            for _, template in templates(each.body):
                for name, value in mapping(template, "metadata", "labels").items():
                    index[key.namespace, str(name), str(value)][key] = each
        return index


@dataclass(frozen=True, kw_only=True)
class Change:
    """The deployment of `new` over `old` in `session` with `nodes`, from `since` (`time.monotonic`)
    on; `old` is empty if `first` is set.
    """

    session: Session
    old: Deployed
    new: Deployed
    since: float
    first: bool
    nodes: Sequence[Object] = ()
    unmet: dict[Key, str] = field(default_factory=dict)
    """The fields of claims for devices that no node meets."""

    def each(self, *kinds: str) -> Iterator[tuple[Key, Manifest, Manifest | None]]:
        """The objects that the cluster holds, of `kinds` if any, each with its earlier declaration."""
        for key, manifest in self.new.manifests.items():
            if not kinds or key.kind in kinds:
                yield key, manifest, self.old.manifests.get(key)

    def same(self, key: Key, *path: str) -> bool:
        """True if `key` is declared as before, or its mapping at `path` is."""
        before, after = self.old.manifests.get(key), self.new.manifests.get(key)
        if before is None or after is None:
            return False
        return mapping(before.body, *path) == mapping(after.body, *path)
