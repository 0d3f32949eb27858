"""Records the lowest number of ready endpoints of each model, as the Services of a cluster see
them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from inferplan.rehearsal.cluster import Cluster

_PATH = "/apis/discovery.k8s.io/v1/endpointslices"
_CATCH_UP_SECONDS = 30.0


class Endpoints:
    """Counts from the moment it is made until `close`; `lowest` is by model, in whatever namespace
    it runs.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._api = cluster.api()
        self._slices: dict[str, tuple[str, int]] = {}
        self._news = threading.Condition()
        self.lowest: dict[str, int] = {}
        listed = self._api.request("GET", _PATH)
        self._seen = int(listed["metadata"]["resourceVersion"])
        for each in listed["items"]:
            self._take("ADDED", each)
        self.restart()
        self._watch = self._api.watch(
            _PATH, {"resourceVersion": listed["metadata"]["resourceVersion"]}
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def restart(self) -> None:
        """Forget the past: the lowest counts are those of now."""
        with self._news:
            self.lowest = dict(self._counts())

    def catch_up(self) -> None:
        """Return when every change up to now was counted."""
        newest = max(
            (
                int(each["metadata"]["resourceVersion"])
                for each in self._api.request("GET", _PATH)["items"]
            ),
            default=0,
        )
        with self._news:
            assert self._news.wait_for(lambda: self._seen >= newest, _CATCH_UP_SECONDS), (
                "the watch on endpoints fell behind"
            )

    def close(self) -> None:
        """End it."""
        self._watch.close()
        self._thread.join(5)
        self._api.close()

    def _follow(self) -> None:
        for kind, each in self._watch:
            with self._news:
                if kind in ("ADDED", "MODIFIED", "DELETED"):
                    self._take(kind, each)
                    counts = self._counts()
                    for model in self.lowest:
                        self.lowest[model] = min(self.lowest[model], counts[model])
                self._seen = max(
                    self._seen, int(each.get("metadata", {}).get("resourceVersion", 0))
                )
                self._news.notify_all()

    def _take(self, kind: str, each: dict[str, Any]) -> None:
        labels = each["metadata"].get("labels") or {}
        if labels.get("app.kubernetes.io/component") != "model":
            return
        ready = sum(
            (point.get("conditions") or {}).get("ready", False)
            for point in each.get("endpoints") or []
        )
        uid = each["metadata"]["uid"]
        self._slices.pop(uid, None)
        if kind != "DELETED":
            self._slices[uid] = (labels["app.kubernetes.io/instance"], ready)

    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for model, ready in self._slices.values():
            # A Service of several slices, or of two namespaces during a move, counts as a whole.
            counts[model] += ready
        return counts
