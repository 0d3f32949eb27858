"""Claims and volumes that an interrupted update leaves in the way of the next one.

Kubernetes binds a volume to the uid of its claim. After a claim is deleted, its volume stays
`Released`, and a new claim with the same name stays Pending until the uid is removed from the
volume. A claim that is being deleted stays until the last pod that mounts it has ended, and no new
pod may mount it. (Kubernetes documentation, Persistent Volumes, read 2026-11-22.)
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from inferplan.errors import OperationError
from inferplan.kube.names import MANAGED_BY_LABEL
from inferplan.workspace.live import LiveCluster, ObjectKey

WITHOUT_UID: Final[Mapping[str, Any]] = {
    "spec": {"claimRef": {"uid": None, "resourceVersion": None}}
}
"""The merge patch that makes a released volume available to the claim that it names."""
# Servers get up to 5 minutes to finish their requests, and a kubelet needs a moment more.
_PATIENCE_SECONDS: Final = 360.0
_POLL_SECONDS: Final = 0.5


def settle_volumes(
    declared: Collection[ObjectKey],
    live: LiveCluster | None,
    patch_volume: Callable[[str, Mapping[str, Any]], None] | None,
    say: Callable[[str], None],
) -> None:
    """Wait until no claim of `declared` is being deleted, and free the volumes of deleted ones.
    Raises OperationError after 6 minutes.
    """
    if live is None or patch_volume is None:
        return
    _await_deletions(declared, live, say)
    for name in released_volumes(declared, live):
        patch_volume(name, WITHOUT_UID)
        say(f"PersistentVolume {name} was kept for a deleted claim; it is free for the new one")
    live.forget()


def released_volumes(declared: Collection[ObjectKey], live: LiveCluster) -> list[str]:
    """The volumes of `declared` that inferplan created and that Kubernetes keeps for a deleted
    claim of the same name.
    """
    claims = {
        (each.namespace, each.name) for each in declared if each.kind == "PersistentVolumeClaim"
    }
    released = []
    for each in declared:
        volume = live.find(each) if each.kind == "PersistentVolume" else None
        if volume is None or (volume.get("status") or {}).get("phase") != "Released":
            continue
        claim = volume["spec"].get("claimRef") or {}
        ours = (volume["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == "inferplan"
        if ours and (claim.get("namespace"), claim.get("name")) in claims:
            released.append(each.name)
    return sorted(released)


def volume_findings(declared: Collection[ObjectKey], live: LiveCluster) -> list[str]:
    return [
        f"PersistentVolume {name}: Kubernetes keeps it for a deleted claim; it is freed for the new"
        " claim"
        for name in released_volumes(declared, live)
    ]


def _await_deletions(
    declared: Collection[ObjectKey], live: LiveCluster, say: Callable[[str], None]
) -> None:
    claims = [each for each in declared if each.kind == "PersistentVolumeClaim"]
    deadline = time.monotonic() + _PATIENCE_SECONDS
    waits_for: list[ObjectKey] = []
    while terminating := [
        each
        for each in claims
        if "deletionTimestamp" in (live.find(each) or {"metadata": {}})["metadata"]
    ]:
        shown = {
            each: f"{each}, mounted by {', '.join(_pods_of(each, live)) or 'no pod'}"
            for each in terminating
        }
        if time.monotonic() > deadline:
            raise OperationError(
                "The stack declares a claim that is still being deleted:"
                f" {'; '.join(shown.values())}. Nothing was changed. End these pods (kubectl delete"
                " pod), then run the same command again."
            )
        for each in terminating:
            if each not in waits_for:
                say(f"waits until a deleted claim is gone: {shown[each]}")
        waits_for = terminating
        time.sleep(
            _POLL_SECONDS
        )  # one list request of two kinds; kubectl offers no watch through --raw
        live.forget()


def _pods_of(claim: ObjectKey, live: LiveCluster) -> list[str]:
    return sorted(
        name
        for (_, name), pod in live.objects("v1", "Pod", claim.namespace).items()
        if any(
            (each.get("persistentVolumeClaim") or {}).get("claimName") == claim.name
            for each in pod["spec"].get("volumes") or ()
        )
    )
