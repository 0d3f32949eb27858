"""Records of a cluster while manifests are applied: ready endpoints over time, exceeded quotas, and
claims without a volume.
"""

import math
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from inferplan.audit.manifest import Object
from inferplan.kube.objects import condition
from inferplan.kube.paths import mapping
from inferplan.rehearsal.wait.object_events import Key

_PREEMPTOR: Final = re.compile(r"Preempted by (?:pod )?([0-9a-f-]{36})")


class History:
    """Fed by `Watching`, whose lock guards it. `changed` is set by each state of each object."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self.claims: deque[Object] = deque()
        self.quotas: dict[Key, str] = {}
        self.attached: defaultdict[Key, list[tuple[Object, Object]]] = defaultdict(list)
        """Claims that pods on two nodes hold at once, each with the later and an earlier pod."""
        self.preempted: dict[tuple[Any, Any], str] = {}
        """Pods that were displaced, by namespace and name, each with the uid of the pod that did it."""
        self.freed = False
        """True if a pod has left its node, until a reader resets it."""
        self._holders: dict[Key, dict[str, Object]] = defaultdict(dict)
        self._slices: dict[Key, dict[str, int]] = defaultdict(dict)
        self._endpoints: dict[Key, list[tuple[float, int]]] = defaultdict(list)
        self._ready: dict[str, tuple[str, dict[str, str], float, float]] = {}
        """Pods that were ready by uid: namespace, labels, and from when until when."""

    def look(self, live: Object, gone: bool) -> None:  # noqa: FBT001 - called by position
        kind = live.get("kind")
        if kind == "EndpointSlice":
            self._endpoint_slice(live, gone=gone)
        elif kind == "Pod" and live["spec"].get("nodeName"):
            self._pod(live, gone=gone)
            self._readiness(live, gone=gone)
        elif kind == "Event" and "exceeded quota" in str(live.get("message", "")):
            about = {"kind": "", "namespace": "", "name": "", **(live.get("involvedObject") or {})}
            self.quotas[Key(about["kind"], about["namespace"], about["name"])] = str(
                live["message"]
            )
        elif kind == "Event" and live.get("reason") == "Preempted":
            about, match = mapping(live, "involvedObject"), _PREEMPTOR.search(live["message"])
            self.preempted[about.get("namespace"), about.get("name")] = match[1] if match else ""
        elif kind == "PersistentVolumeClaim" and not gone and not live["spec"].get("volumeName"):
            self.claims.append(live)
        self.changed.set()

    def _pod(self, live: Object, *, gone: bool) -> None:
        name, node = live["metadata"]["name"], live["spec"]["nodeName"]
        self.freed |= gone
        for claim in (
            each["persistentVolumeClaim"]
            for each in live["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in each
        ):
            key = Key("PersistentVolumeClaim", live["metadata"]["namespace"], claim["claimName"])
            others = [
                each for each in self._holders[key].values() if each["spec"]["nodeName"] != node
            ]
            if gone or mapping(live, "status").get("phase") in ("Succeeded", "Failed"):
                self._holders[key].pop(name, None)
            elif name not in self._holders[key]:
                self._holders[key][name] = live
                if others:
                    self.attached[key] += ((live, each) for each in others)

    def _readiness(self, live: Object, *, gone: bool) -> None:
        metadata, now = live["metadata"], time.monotonic()
        ready = (
            not gone
            and "deletionTimestamp" not in metadata
            and condition(live, "Ready").get("status") == "True"
        )
        _, _, since, until = self._ready.get(metadata["uid"], ("", {}, now, math.inf))
        if ready or metadata["uid"] in self._ready:
            span = (since, math.inf) if ready else (since, min(until, now))
            self._ready[metadata["uid"]] = (
                metadata["namespace"],
                mapping(metadata, "labels"),
                *span,
            )

    def unserved(self, namespace: str, selector: Mapping[str, str], since: float) -> float:
        """Seconds since `since` in which no pod with the labels of `selector` was ready; 0 if none
        was then.

        A busy endpoints controller may pass over a gap.
        """
        several = [
            each
            for each in list(self._ready.values())
            if each[0] == namespace and selector.items() <= each[1].items()
        ]
        spans = sorted((start, end) for _, _, start, end in several)
        covered = max((end for start, end in spans if start <= since), default=0.0)
        if covered <= since:
            return 0.0
        seconds = 0.0
        for start, end in [*spans, (time.monotonic(), math.inf)]:
            seconds += max(0.0, start - covered) if start > since else 0.0
            covered = max(covered, end)
        return seconds

    def endpoints(self, service: Key) -> int:
        """The ready endpoints of `service` now."""
        return self._endpoints[service][-1][1] if service in self._endpoints else 0

    def had_endpoints(self, service: Key, since: float) -> bool:
        """True if `service` had a ready endpoint before `since` (`time.monotonic`)."""
        return any(count for at, count in self._endpoints.get(service, ()) if at <= since)

    def gap(self, service: Key, since: float) -> float:
        """Seconds since `since` (`time.monotonic`) in which `service` had lost its ready endpoints;
        0 if it had none before.
        """
        states = self._endpoints.get(service, [])
        before = [count for at, count in states if at <= since]
        if not before or not before[-1]:
            return 0.0
        # Two consecutive states differ.
        later = [*(each for each in states if each[0] > since), (time.monotonic(), 1)]
        return sum(end - at for (at, count), (end, _) in pairwise(later) if not count)

    def _endpoint_slice(self, live: Object, *, gone: bool) -> None:
        metadata = live["metadata"]
        labels, ready = (
            metadata.get("labels") or {},
            [mapping(each, "conditions").get("ready") for each in live.get("endpoints") or ()],
        )
        service = Key(
            "Service", metadata.get("namespace", ""), labels.get("kubernetes.io/service-name", "")
        )
        # Without ports, no port of the Service is a port of its pods.
        reachable = not gone and bool(
            live.get("ports") or "service.kubernetes.io/headless" in labels
        )
        self._slices[service][metadata["name"]] = (
            sum(each is not False for each in ready) if reachable else 0
        )
        count = sum(self._slices[service].values())
        if not self._endpoints[service] or self._endpoints[service][-1][1] != count:
            self._endpoints[service].append((time.monotonic(), count))
