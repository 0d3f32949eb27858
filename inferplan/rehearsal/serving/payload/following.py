"""Follows the pods of the stack's models, in a thread: lists them, watches them, and lists them again when the watch ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inferplan.rehearsal.cluster.api import Api, ApiError

_RETRY_SECONDS = 0.5
_SELECTOR = {"labelSelector": "app.kubernetes.io/component=model"}
MODEL_LABEL = "app.kubernetes.io/instance"


def follow(server: str, pki: Path, namespace: str, listed: Callable[[list[Any]], None], changed: Callable[[str, Any], None]) -> None:
    """Call `listed` with all pods of models, then `changed` with each event, until the process ends."""
    api = Api(server, pki, connections=1)
    path = f"/api/v1/namespaces/{namespace}/pods"

    def run() -> None:
        while True:
            try:
                pods = api.request("GET", path, query=_SELECTOR)
                listed(pods["items"])
                for kind, pod in api.watch(path, {**_SELECTOR, "resourceVersion": pods["metadata"]["resourceVersion"]}):
                    if kind == "ERROR":
                        break
                    if kind != "BOOKMARK":
                        changed(kind, pod)
            except ApiError:
                pass
            time.sleep(_RETRY_SECONDS)  # while the API server is down, the last state of the pods stays

    threading.Thread(target=run, daemon=True).start()
