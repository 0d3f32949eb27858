"""Volumes that Kubernetes keeps for deleted claims, and claims that are being deleted, before an
update.
"""

from __future__ import annotations

import pytest

from inferplan.errors import OperationError
from inferplan.updating import volumes
from inferplan.updating.volumes import settle_volumes, volume_findings
from inferplan.workspace.live import LiveCluster, ObjectKey

VOLUME = ObjectKey("v1", "PersistentVolume", "", "answers-nfs-77")
CLAIM = ObjectKey("v1", "PersistentVolumeClaim", "answers", "nfs-77")
OURS = {"app.kubernetes.io/managed-by": "inferplan"}


def volume(phase: str, *, labels=OURS, claim="nfs-77"):
    spec = {
        "claimRef": {"namespace": "answers", "name": claim, "uid": "8c1f", "resourceVersion": "9"}
    }
    return {
        "metadata": {"name": VOLUME.name, "labels": labels},
        "spec": spec,
        "status": {"phase": phase},
    }


class World:
    """A cluster with lists of objects by kind; `states` are its lists of claims, one for each time
    they are read again.
    """

    def __init__(self, volume=None, states=((),), pods=()):
        self.volume, self.states, self.pods, self.patches, self.lines = (
            volume,
            list(states),
            pods,
            [],
            [],
        )

    def get(self, path):
        if path == "/api/v1":
            kinds = {"PersistentVolume": False, "PersistentVolumeClaim": True, "Pod": True}
            return {
                "resources": [
                    {"kind": kind, "name": kind.lower() + "s", "namespaced": inside}
                    for kind, inside in kinds.items()
                ]
            }
        if path.endswith("/persistentvolumeclaims"):
            return {"items": self.states.pop(0) if len(self.states) > 1 else self.states[0]}
        return {
            "items": {
                "persistentvolumes": [self.volume] if self.volume else [],
                "pods": self.pods,
            }.get(path.rpartition("/")[2], [])
        }

    def settle(self):
        settle_volumes(
            [VOLUME, CLAIM],
            LiveCluster(self.get),
            lambda *patch: self.patches.append(patch),
            self.lines.append,
        )


def test_a_released_volume_of_a_declared_claim_is_freed_and_named():
    world = World(volume("Released"))
    world.settle()
    assert world.patches == [
        (VOLUME.name, {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}})
    ]
    assert VOLUME.name in world.lines[0]
    assert VOLUME.name in volume_findings([VOLUME, CLAIM], LiveCluster(world.get))[0]


@pytest.mark.parametrize(
    "kept",
    [
        volume("Bound"),
        volume("Available"),
        volume("Released", labels={}),
        volume("Released", claim="of-others"),
        None,
    ],
)
def test_every_other_volume_stays(kept):
    world = World(kept)
    world.settle()
    assert world.patches == world.lines == []


def claim(*, terminating: bool):
    return {
        "metadata": {
            "name": "nfs-77",
            "namespace": "answers",
            **({"deletionTimestamp": "2026-11-22T10:00:00Z"} if terminating else {}),
        }
    }


USER = {
    "metadata": {"name": "alpha-0", "namespace": "answers"},
    "spec": {"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "nfs-77"}}]},
}


def test_an_update_waits_for_a_claim_that_is_being_deleted_and_names_the_pods_once(monkeypatch):
    monkeypatch.setattr(volumes, "_POLL_SECONDS", 0)
    world = World(volume("Released"), states=([claim(terminating=True)],) * 3 + ([],), pods=[USER])
    world.settle()
    waiting, freed = world.lines
    assert "alpha-0" in waiting
    assert "free" in freed
    assert world.patches


def test_a_claim_that_stays_in_use_ends_with_the_pods_and_the_remedy(monkeypatch):
    monkeypatch.setattr(volumes, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(volumes, "_POLL_SECONDS", 0)
    world = World(volume("Bound"), states=([claim(terminating=True)],), pods=[USER])
    with pytest.raises(
        OperationError,
        match=r"PersistentVolumeClaim answers/nfs-77, mounted by alpha-0.*kubectl delete pod",
    ):
        world.settle()
    assert world.patches == []
