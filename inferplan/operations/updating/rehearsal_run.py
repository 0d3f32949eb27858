"""Brings one revision of a stack up on the simulated cluster and records what happens, one JSON object per line."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from inferplan.rehearsal.cluster import Cluster
    from inferplan.rehearsal.cluster.api import Api

_CATCH_UP_SECONDS = 30.0
# Short answers, so that clients send often: a fake pod is replaced within a fraction of a second.
_PROFILE = "ttft=50ms,itl=5ms"


class Diary:
    """A file with one record per line, each with the seconds since the run began. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def write(self, kind: str, **fields: Any) -> None:
        """Write one record at once, because the run may be interrupted at any moment."""
        with self._lock:
            record = {"at": round(time.monotonic() - self._began, 3), "kind": kind, **fields}
            self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._stream.flush()


def main(stack: str, path: Path) -> int:
    """Run the stack of the current folder and write the diary to `path`. Returns 0 if everything got ready."""
    diary = Diary(path)
    try:
        _run(stack, diary)
    except Exception as error:  # noqa: BLE001 - every error of the stack or the cluster is a finding
        diary.write("refused", message=str(error) or type(error).__name__)
        return 1
    return 0


def _run(stack: str, diary: Diary) -> None:
    from inferplan.operations.local_gateway.gateway import LocalGateway
    from inferplan.operations.workspace import open_workspace
    from inferplan.rehearsal.cluster import start
    from inferplan.rehearsal.progress import silent

    workspace = open_workspace(stack)
    for name, spec in workspace.settings.models.items():
        diary.write("model", name=name, seconds=_load_seconds(spec))
    cluster, local = start(workspace.stack), LocalGateway(workspace, profile=[_PROFILE])
    with _observed(cluster, diary):
        outcome = workspace.apply(cluster, listener=local.following(cluster, lambda event: _note(diary, event)), step=silent)
    if local.problem:
        diary.write("uncalled", model="", message=local.problem)
    local.bring_up(cluster)
    for target in outcome.deleted:
        diary.write("pruned", target=str(target))
    diary.write("done", seconds=round(outcome.seconds, 1))


def _load_seconds(spec: Any) -> int | None:
    """Seconds to read the weights and to warm up, None if the model does not state its size."""
    from inferplan.kube.quantity import bytes_of

    size, rate = getattr(spec.stored_files, "size", None), getattr(spec, "load_mib_per_second", None)
    if size is None or not rate:
        return None
    return round(bytes_of(size) / 2**20 / rate) + (getattr(spec, "warmup_seconds", None) or 0)


def _note(diary: Diary, event: Any) -> None:
    fields = {name: getattr(event, name) for name in ("change", "note", "reason", "message", "remedy", "because") if hasattr(event, name)}
    diary.write(type(event).__name__.lower(), target=str(event.target), **fields)


class _Follower(threading.Thread):
    """Passes each state of the objects at `path` of `api` to `look` until it is closed."""

    def __init__(self, api: Api, path: str, look: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(daemon=True)
        self._api, self._path, self._look = api, path, look
        listed = api.request("GET", path)
        for each in listed["items"]:
            look(each)
        self._seen, self._news = int(listed["metadata"]["resourceVersion"]), threading.Condition()
        self._watch = api.watch(path, {"resourceVersion": listed["metadata"]["resourceVersion"]})
        self.start()

    def run(self) -> None:
        for kind, live in self._watch:
            if kind in ("ADDED", "MODIFIED"):
                self._look(live)
            with self._news:
                self._seen = int(live.get("metadata", {}).get("resourceVersion", self._seen))
                self._news.notify_all()

    def catch_up(self) -> None:
        """Wait until `look` has seen every state up to now, because the watch is later than other connections."""
        newest = max((int(each["metadata"]["resourceVersion"]) for each in self._api.request("GET", self._path)["items"]), default=0)
        with self._news:
            self._news.wait_for(lambda: self._seen >= newest, _CATCH_UP_SECONDS)

    def close(self) -> None:
        self._watch.close()
        self.join(5)


@contextlib.contextmanager
def _observed(cluster: Cluster, diary: Diary) -> Iterator[None]:
    api = cluster.api()
    looks = (("/apis/apps/v1/deployments", _deployment), ("/api/v1/pods", _pod))
    followers = [_Follower(api, path, functools.partial(look, diary)) for path, look in looks]
    try:
        yield
        for each in followers:
            each.catch_up()
    finally:
        for each in followers:
            each.close()
        api.close()


def _deployment(diary: Diary, live: dict[str, Any]) -> None:
    status = live.get("status", {})
    diary.write("replicas", name=live["metadata"]["name"], wanted=live["spec"].get("replicas", 1), ready=status.get("readyReplicas", 0))


def _pod(diary: Diary, live: dict[str, Any]) -> None:
    for condition in live.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            diary.write("pending", pod=live["metadata"]["name"], reason=condition.get("message", condition.get("reason", "")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
