"""The test stand for Triton: repositories as the component generates them, loaded by a real
tritonserver on loopback.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.handles import NodeTarget
from inferplan.components.pools import SimulatedPool
from inferplan.components.serving.triton.repository import repository_files
from inferplan.components.serving.triton.served import TritonServed
from inferplan.components.serving.triton.service import server_args
from inferplan.components.serving.triton.spec import TritonSpec
from inferplan.kube.quantity import bytes_of
from tests.dataplane.serving.environment import Environment
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

# On Gaudi, Triton's models are KIND_CPU as they stand, so that the server of a machine without
# cards loads the generated files unchanged.
GAUDI: NodeTarget = SimulatedPool.model_validate(
    {"provider": "simulated", "accelerator": "gaudi-2", "nodes": 1}
).target("gaudi")
_LATE_LOCK = "boost::interprocess::lock_exception"
STARTED = "Started Metrics Service"
START_SECONDS = 500
# By itself the server gives a model's process 30 s to start, and ten of them start at once where
# one core may be all there is.
PATIENT = "--backend-config=python,stub-timeout-seconds=400"


def spec_of(repository: Mapping[str, Any], **fields: Any) -> TritonSpec:
    """A Triton service with `repository`, on ports that are free now."""
    ports = {"http": free_port(), "grpc": free_port(), "metrics": free_port()}
    base = {
        "engine": "triton",
        "weights": {"store": "shared", "path": "llm"},
        "pool": "gaudi",
        "ports": ports,
        "drainSeconds": 60,
    }
    return TritonSpec.model_validate({**base, "repository": repository, **fields})


@dataclass(frozen=True)
class Binary:
    """The server of the nvidia-pytriton wheel, its libraries, and a backend directory with the stub
    of the environment's Python.
    """

    environment: Environment
    backends: Path
    beside: Environment | None = None
    """What runs its models and scripts instead of the server's own environment, which holds no
    library that generates.
    """

    @property
    def python(self) -> Path:
        """The interpreter that runs models and scripts."""
        return (self.beside or self.environment).python

    @property
    def home(self) -> Path:
        """The server's directory inside the wheel."""
        return self.environment.packages / "pytriton" / "tritonserver"

    @property
    def variables(self) -> dict[str, str]:
        """What the server and its stubs need: the interpreter's shared library, and its packages."""
        # The stub finds its packages as the first python on PATH would, and its library through the
        # loader.
        libraries = [
            str(self.environment.library),
            str(self.environment.packages / "nvidia_pytriton.libs"),
        ]
        path = [str(self.python.parent), os.environ.get("PATH", "")]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
            "PATH": os.pathsep.join(path),
        }


def binary(environment: Environment, directory: Path) -> Binary:
    """Lays out the backend directory that the server asks for: the wheel's backends, and one stub
    beside the python one.
    """
    source = environment.packages / "pytriton" / "tritonserver"
    shutil.copytree(source / "backends", directory / "backends")
    version = environment.packages.parent.name.removeprefix("python")
    shutil.copy2(
        source / "python_backend_stubs" / version / "triton_python_backend_stub",
        directory / "backends" / "python",
    )
    return Binary(environment, directory / "backends")


def with_packages_of(server: Binary, *environments: Environment, directory: Path) -> Binary:
    """`server` with an interpreter that finds the packages of `environments`, where two hold the
    same one those of the first.
    """
    subprocess.run(
        [str(server.environment.python), "-m", "venv", "--without-pip", str(directory)],
        check=True,
        capture_output=True,
    )
    made = Environment(directory, server.environment.library)
    (made.packages / "others.pth").write_text(
        "".join(f"{each.packages}\n" for each in environments)
    )
    return replace(server, beside=made)


def write(files: Mapping[str, str], directory: Path) -> None:
    """Writes `files`, by path, below `directory`."""
    for path, text in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Verdict:
    """How a start ended: whether the server serves, and what it said."""

    serving: bool
    log: str


@dataclass(frozen=True)
class Triton:
    """A running server, and the headers that its callers send."""

    binary: Binary
    spec: TritonServed
    process: subprocess.Popen[str]
    headers: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    """What it said until it served."""

    def ask(
        self, method: str, path: str, body: Any = None, *, port: int | None = None
    ) -> tuple[int, bytes]:
        """One HTTP call: status and whole body."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", port or self.spec.ports.http, timeout=PATIENCE_SECONDS
        )
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"Content-Type": "application/json", **self.headers},
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def infer(self, model: str, **tensors: tuple[str, list[Any]]) -> dict[str, list[Any]]:
        """KServe's HTTP inference of a batch, each tensor as (type, values); outputs by name."""
        inputs = [
            {"name": name, "datatype": kind, "shape": [len(values), 1], "data": values}
            for name, (kind, values) in tensors.items()
        ]
        status, body = self.ask("POST", f"/v2/models/{model}/infer", {"inputs": inputs})
        assert status == 200, body
        return {each["name"]: each["data"] for each in json.loads(body)["outputs"]}

    def stream(self, model: str, **fields: Any) -> list[dict[str, Any]]:
        """The events of `generate_stream`, in order."""
        status, body = self.ask("POST", f"/v2/models/{model}/generate_stream", fields)
        assert status == 200, body
        return [
            json.loads(line.removeprefix("data: "))
            for line in body.decode().splitlines()
            if line.startswith("data: ")
        ]

    def await_file(self, path: Path) -> None:
        """Waits until a model has written `path`; fails when the server ends first."""
        while not path.exists():
            assert self.process.poll() is None, "the server ended"
            time.sleep(0.01)


def generated(spec: TritonSpec, weights: Path, *, target: NodeTarget = GAUDI) -> dict[str, str]:
    """The repository's files as the component makes them, with the weights where the test keeps
    them.
    """
    return repository_files(spec, weights=str(weights), target=target)


@contextmanager
def running(
    server: Binary,
    spec: TritonServed,
    files: Mapping[str, str],
    directory: Path,
    *options: str,
    shared_memory: bool = False,
) -> Iterator[Triton]:
    """A server on `files`, ready; fails with its log when it does not come up, and is stopped by
    its process id.

    With `shared_memory` its /dev/shm is what its pod would have, of the size that `spec` says.
    """
    verdict, process = _start(server, spec, files, directory, *options, shared_memory=shared_memory)
    try:
        assert verdict.serving, verdict.log
        yield Triton(server, spec, process, log=verdict.log)
    finally:
        _stop(process)


def verdict_on(
    server: Binary,
    spec: TritonServed,
    files: Mapping[str, str],
    directory: Path,
    *,
    shared_memory: bool = False,
) -> Verdict:
    """Whether the server takes `files`."""
    verdict, process = _start(server, spec, files, directory, shared_memory=shared_memory)
    _stop(process)
    return verdict


def with_own_mounts(mount: str) -> list[str]:
    """What to put before a command so that it sees what the shell command `mount` mounts, and
    nobody else does; skips the test where that is not allowed.
    """
    apart = (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    )
    if subprocess.run([*apart, "sh", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody have mounts of their own (unshare --mount)")
    return [*apart, "sh", "-c", f'{mount} && exec "$@"', "sh"]


def _start(
    server: Binary,
    spec: TritonServed,
    files: Mapping[str, str],
    directory: Path,
    *options: str,
    shared_memory: bool = False,
) -> tuple[Verdict, subprocess.Popen[str]]:
    """Start the server, again if it ended because a process of a busy machine held the lock of its
    shared memory for too long.
    """
    write(files, directory)
    for _ in range(2):
        verdict, process = _started(server, spec, directory, *options, shared_memory=shared_memory)
        if _LATE_LOCK not in verdict.log:
            return verdict, process
    return _started(server, spec, directory, *options, shared_memory=shared_memory)


def _started(
    server: Binary,
    spec: TritonServed,
    directory: Path,
    *options: str,
    shared_memory: bool,
) -> tuple[Verdict, subprocess.Popen[str]]:
    own = f"mount -t tmpfs -o size={bytes_of(spec.shared_memory)} tmpfs /dev/shm"
    command = [
        *(with_own_mounts(own) if shared_memory else []),
        str(server.home / "bin" / "tritonserver"),
        *server_args(spec, repository=str(directory)),
        f"--backend-directory={server.backends}",
        f"--cache-directory={server.home / 'caches'}",
        PATIENT,
        *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
        *options,
    ]
    process = subprocess.Popen(
        command,
        env=server.variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said = []
    assert process.stderr is not None
    # A server that hangs is ended, so that a test fails with its log instead of waiting for ever.
    limit = threading.Timer(START_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    try:
        for line in process.stderr:
            said.append(line)
            if STARTED in line:
                _await_listening(spec.ports.http)
                return Verdict(True, "".join(said)), process
        process.wait(timeout=PATIENCE_SECONDS)
    finally:
        limit.cancel()
    return Verdict(False, "".join(said)), process


def _await_listening(port: int) -> None:
    """The server says that it started a moment before its thread listens, and announces nothing
    after that.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nothing listens on port {port}"
            time.sleep(0.01)
        else:
            return


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        # Reading to the end keeps the pipe from filling while the server winds down.
        process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_SECONDS)
