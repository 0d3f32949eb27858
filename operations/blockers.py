"""Names what holds up a deletion: pods that do not end, finalizers that nobody removes, and what a namespace still contains.

It reads the cluster and changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from operations.live import LiveCluster

# Pods of ours drain for at most their grace period, which has passed when Kubernetes sets this time; some more for the kubelet.
PATIENCE_SECONDS: Final = 30.0
_KINDS: Final = (
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "Ingress"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("ray.io/v1", "RayService"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
)


def blockers(live: LiveCluster, namespace: str, now: datetime) -> Iterator[str]:
    """One sentence for each object of `namespace` whose deletion has been due for a while, and why it stays."""
    for version, kind in _KINDS:
        for (_, name), each in sorted(live.objects(version, kind, namespace).items()):
            since = _overdue(each, now)
            if since is None:
                continue
            finalizers = each["metadata"].get("finalizers") or []
            if finalizers:
                why = f"the finalizer{'s' * (len(finalizers) > 1)} {', '.join(finalizers)} must be removed by whoever set it"
            elif kind == "Pod":
                node = (each.get("spec") or {}).get("nodeName") or "no node"
                why = f"its containers have not ended on {node}; is the node's kubelet running?"
            else:
                why = "nothing holds it that it names"
            yield f"{kind} {namespace}/{name} has been terminating for {since:.0f} s: {why}"
    home = live.objects("v1", "Namespace").get(("", namespace))
    if home is not None and _overdue(home, now) is not None:
        for condition in (home.get("status") or {}).get("conditions", []):
            if condition["status"] == "True" and condition["type"] in ("NamespaceContentRemaining", "NamespaceFinalizersRemaining"):
                yield f"Namespace {namespace}: {condition['message']}"


def _overdue(each: dict[str, Any], now: datetime) -> float | None:
    """Seconds since the deletion was due, None where it is not."""
    due = each["metadata"].get("deletionTimestamp")
    if not due:
        return None
    seconds = (now - datetime.fromisoformat(due)).total_seconds()
    return seconds if seconds >= PATIENCE_SECONDS else None


@contextmanager
def naming_blockers(live: LiveCluster | None, namespace: str, say: Callable[[str], None], *, every: float = 15.0) -> Iterator[None]:
    """Says inside the block, each time it is new, what holds up deletions in `namespace`."""
    done = threading.Event()
    said: set[str] = set()

    def look() -> None:
        while live is not None and not done.wait(every):
            live.forget()
            for text in _quietly(live, namespace):
                # The seconds change, the cause does not.
                cause = text.partition(" has been terminating for ")[0]
                if cause not in said:
                    said.add(cause)
                    say(text)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1)


def _quietly(live: LiveCluster, namespace: str) -> Iterable[str]:
    try:
        return list(blockers(live, namespace, datetime.now(UTC)))
    except Exception:  # noqa: BLE001 - it only explains; a cluster that does not answer is told by the update itself
        return []
