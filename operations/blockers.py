"""Finds what blocks a deletion: pods that do not end, finalizers that are not removed, and the contents of a namespace.

It changes nothing.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from operations.live import LiveCluster

# Kubernetes sets the deletion time after the grace period, in which our pods drain; this is extra time for the kubelet.
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
    """One sentence for each object of `namespace` whose deletion is overdue, with the reason."""
    for version, kind in _KINDS:
        for (_, name), each in sorted(live.objects(version, kind, namespace).items()):
            since = _overdue(each, now)
            if since is None:
                continue
            finalizers = each["metadata"].get("finalizers") or []
            if finalizers:
                plural, them = ("s", "them") if len(finalizers) > 1 else ("", "it")
                why = f"the finalizer{plural} {', '.join(finalizers)} must be removed by the controller that added {them}"
            elif kind == "Pod":
                node = (each.get("spec") or {}).get("nodeName") or "no node"
                why = f"its containers have not ended on {node}; is the node's kubelet running?"
            else:
                why = "no finalizer is left"
            yield f"{kind} {namespace}/{name} has been terminating for {since:.0f} s: {why}"
    home = live.objects("v1", "Namespace").get(("", namespace))
    if home is not None and _overdue(home, now) is not None:
        for condition in (home.get("status") or {}).get("conditions", []):
            if condition["status"] == "True" and condition["type"] in ("NamespaceContentRemaining", "NamespaceFinalizersRemaining"):
                yield f"Namespace {namespace}: {condition['message']}"


def _overdue(each: dict[str, Any], now: datetime) -> float | None:
    """Seconds since the deletion was due, None if it is not overdue."""
    due = each["metadata"].get("deletionTimestamp")
    if not due:
        return None
    seconds = (now - datetime.fromisoformat(due)).total_seconds()
    return seconds if seconds >= PATIENCE_SECONDS else None


@contextmanager
def naming_blockers(live: LiveCluster | None, namespace: str, say: Callable[[str], None], *, every: float = 15.0) -> Iterator[None]:
    """Pass each new blocker of deletions in `namespace` to `say` while the block runs."""
    done = threading.Event()
    said: set[str] = set()

    def look() -> None:
        while live is not None and not done.wait(every):
            live.forget()
            texts: list[str] = []
            # It only explains; the update itself reports a cluster that does not answer.
            with suppress(Exception):
                texts += blockers(live, namespace, datetime.now(UTC))
            for text in texts:
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
