"""`python -m inferplan.rehearsal.serving.payload FILE`: serve the models that FILE (stubs.json)
lists, until the process is killed.

SIGHUP reads the file again. Requests that run are finished then, also those to models that the file
no longer has.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferplan.kube.api import Api
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from inferplan.rehearsal.serving.payload.metrics import page, targets
from inferplan.rehearsal.serving.payload.protocols import answer
from inferplan.rehearsal.serving.payload.replicas import Model
from inferplan.rehearsal.serving.payload.web import Answer, Denied, Listener, Request, converse
from inferplan.rehearsal.wait.watching import Watching

_GRPC = "kserve-v2-grpc"


class Stubs:
    """The models of one file, their listeners by model and protocol, and the page of metrics."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.models: dict[str, Model] = {}
        self.listeners: dict[tuple[str, str], Any] = {}
        self.watching: Watching | None = None
        self.digest = ""
        self.site: dict[str, Any] = {}

    async def read(self) -> None:
        """Take over the file: new models and ports are added, missing ones removed, the others keep
        their replicas.
        """
        content = self.file.read_bytes()
        site = json.loads(content)
        if self.site and site["server"] != self.site["server"]:
            # The control plane moved to another port, and the thread that follows the pods asks the
            # old one.
            os.execv(  # noqa: S606 - it starts itself again
                sys.executable,
                [sys.executable, "-P", "-m", "inferplan.rehearsal.serving.payload", str(self.file)],
            )
        self.site = site
        wanted = {each["name"]: each for each in self.site["models"]}
        for name, spec in wanted.items():
            if name in self.models:
                self.models[name].change(spec)
            else:
                self.models[name] = Model(spec)
                for pod in self.watching.known("Pod") if self.watching else ():
                    await self.take(pod, gone=False)
        await self._reserve(
            {
                (name, each["kind"]): each["port"]
                for name, spec in wanted.items()
                for each in spec["protocols"]
            }
        )
        for name in [each for each in self.models if each not in wanted]:
            del self.models[name]
        for name in self.models:
            await self._open(name)
        self.digest = hashlib.sha256(content).hexdigest()

    async def _reserve(self, ports: Mapping[tuple[str, str], int]) -> None:
        """Have a listener for each model and protocol in `ports`, and none for others."""
        for key in [each for each in self.listeners if each not in ports]:
            self.listeners.pop(key).close()
        for key in [each for each in ports if each not in self.listeners]:
            if key[1] == _GRPC:
                from inferplan.rehearsal.serving.payload.rpc import serve

                self.listeners[key] = await serve(self.models[key[0]], ports[key])
            else:
                self.listeners[key] = Listener(ports[key], self._connection(key))

    def _connection(self, key: tuple[str, str]) -> Any:
        model, kind = self.models[key[0]], key[1]

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            replica = model.choose()
            if replica is None:
                writer.transport.abort()
                return

            async def handle(request: Request) -> Answer:
                if not model.accepts(replica, request.headers.get("authorization", "")):
                    raise Denied(401, "Unauthorized")
                prefix = next(
                    each["path"] for each in model.spec["protocols"] if each["kind"] == kind
                )
                return await answer(
                    model, replica, kind, request, request.path.removeprefix(prefix.rstrip("/"))
                )

            replica.connections.add(writer)
            try:
                await converse(reader, writer, handle, {"X-Inferplan-Stub": replica.name})
            finally:
                replica.connections.discard(writer)

        return connected

    async def _open(self, name: str) -> None:
        """Listen for `name` while it has a Ready replica: without one, a Service rejects
        connections. gRPC answers UNAVAILABLE then.
        """
        for key, each in list(self.listeners.items()):
            if key[0] == name and key[1] != _GRPC:
                await each.set_open(wanted=bool(self.models[name].ready()))

    async def take(self, pod: Any, *, gone: bool) -> None:
        """Take over the state of `pod` if it serves one of the models."""
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        model = self.models.get(labels.get(INSTANCE_LABEL, ""))
        if (
            model is not None
            and metadata["namespace"] == self.site["namespace"]
            and labels.get(COMPONENT_LABEL) == "model"
        ):
            model.follow(pod, gone=gone)
            await self._open(model.spec["name"])

    async def report(self, request: Request) -> Answer:
        """Metrics of one pod, the pods as Prometheus discovers them by HTTP, or the digest of the
        file that is in use.
        """
        if request.path == "/site":
            return Answer(body=self.digest.encode() if self.watching else b"", type="text/plain")
        if request.path == "/targets":
            return Answer(body=json.dumps(targets(self.site, self.models)).encode())
        for model in self.models.values():
            for name, replica in model.replicas.items():
                if request.path == f"/pods/{name}/metrics":
                    return Answer(
                        body=page(model, replica).encode(), type="text/plain; version=0.0.4"
                    )
        raise Denied(404, "Unknown pod. /targets lists all.")


async def main(file: Path) -> None:
    stubs = Stubs(file)
    await stubs.read()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: asyncio.ensure_future(stubs.read()))
    site = stubs.site

    def look(pod: Any, gone: bool) -> None:  # noqa: FBT001 - named by Watching
        asyncio.run_coroutine_threadsafe(stubs.take(pod, gone=gone), loop)

    watching = Watching(Api(site["server"], Path(site["pki"]), connections=1), look)
    await asyncio.to_thread(watching.observe, "v1", "Pod")
    stubs.watching = watching

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await converse(reader, writer, stubs.report, {})

    await Listener(site["metrics_port"], connected).set_open(wanted=True)
    gc.freeze()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
