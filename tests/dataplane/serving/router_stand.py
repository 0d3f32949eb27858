"""smg itself, in an environment of its own: what it runs is the container of a model's router, with the
addresses of servers in place of the pods that it would find.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from inferplan.components.handles import SecretRef
from inferplan.components.router.router import RoutedModel, router_args
from inferplan.components.router.spec import RouterSpec
from tests.dataplane.serving.environment import Environment
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

DRAIN_SECONDS = 60
_DEFAULT = RouterSpec()


@dataclass
class RouterProcess:
    """A running router: the port of calls, and the port of its probes."""

    process: subprocess.Popen[bytes]
    port: int
    probes: int
    log: Path

    def status(self, path: str) -> int:
        """The answer to a probe, 0 while nothing listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.probes, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def known(self, key: str) -> int:
        """The number of servers that the router sends calls to."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        with closing(connection):
            connection.request("GET", "/workers", headers={"Authorization": f"Bearer {key}"})
            workers = json.load(connection.getresponse())["workers"]
        return sum(each["is_healthy"] for each in workers)

    def await_ready(self, key: str, servers: int) -> None:
        """Wait until the router is ready, as soon as it knows one server, and until it knows all
        `servers`.
        """
        ends = time.monotonic() + PATIENCE_SECONDS
        while self.status("/readiness") != 200 or self.known(key) < servers:
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < ends, self.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)  # a probe has to be asked; nobody tells

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DRAIN_SECONDS)


def routed(keys: Sequence[str]) -> RoutedModel:
    """A model whose server accepts `keys`."""
    refs = {SecretRef(name="chat-server-key", key=f"key-{each}"): each for each in keys}
    return RoutedModel(
        name="chat",
        names=("chat", "gpt-4o"),
        namespace="inference",
        pods={"name": "chat"},
        port=8000,
        keys=refs,
        gateway={},
        drain_seconds=DRAIN_SECONDS,
        start_seconds=600,
    )


def _local(arguments: Sequence[str], changed: Mapping[str, str], *, finds: bool) -> Iterator[str]:
    """Yield `arguments` with other ports, and unless it `finds` pods without those about pods."""
    pods = (
        ("--service-discovery-port",) if finds else ("--service-discovery", "--selector", "name=")
    )
    skipped = ("--host=", *pods)
    for each in arguments:
        if not each.startswith(skipped):
            option = each.partition("=")[0]
            yield f"{option}={changed[option]}" if option in changed else each


@contextmanager
def router(
    environment: Environment,
    directory: Path,
    servers: Sequence[int],
    *keys: str,
    spec: RouterSpec = _DEFAULT,
    finding: tuple[Path, str] | None = None,
    prefill: Mapping[str, str] | None = None,
) -> Iterator[RouterProcess]:
    """Run the router of `spec` in front of the `servers` at these ports, ready or not. With a
    kubeconfig and a namespace for `finding`, it finds pods there, all at the first of these ports, of both sides with the labels of `prefill`.
    """
    port, probes, metrics = free_port(), free_port(), free_port()
    changed = {
        "--port": str(port),
        "--health-check-port": str(probes),
        "--prometheus-port": str(metrics),
    }
    model = replace(routed(keys), prefill=prefill or {})
    arguments = [*_local(router_args(spec, model), changed, finds=finding is not None)]
    for name, value in zip(("$(ROUTER_KEY)", "$(NEXT_KEY)"), keys, strict=False):
        arguments = [each.replace(name, value) for each in arguments]
    workers = ["--worker-urls", *(f"http://127.0.0.1:{each}" for each in servers)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(directory), "HF_HUB_OFFLINE": "1"}
    if finding is not None:
        kubeconfig, namespace = finding
        environ["KUBECONFIG"] = str(kubeconfig)
        arguments = [each.replace("$(POD_NAMESPACE)", namespace) for each in arguments]
        workers = [f"--service-discovery-port={servers[0]}"]
    log = directory / f"router-{port}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                str(environment.python),
                *("-m", "smg.launch_router", *arguments, "--host=127.0.0.1"),
                *workers,
            ],
            env=environ,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    running = RouterProcess(process, port, probes, log)
    try:
        yield running
    finally:
        running.stop()
