"""The payload of a preheat, run on this machine as its container would, and what its tests have in
common.
"""

from __future__ import annotations

import compileall
import contextlib
import functools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferplan.components.preheat.preheat_job import PreheatJob
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.sources import ModelSource, VolumeClaim
from inferplan.components.stores import WeightsSpec
from tests.patience import PATIENCE_SECONDS
from tests.recorder import declare

PAYLOAD_HOME = Path(__file__).parents[3] / "inferplan" / "components" / "preheat"
SECRET = {
    "AWS_ACCESS_KEY_ID": "canary-access-key",
    "AWS_SECRET_ACCESS_KEY": "canary-secret-key",
    "AUTHORIZATION": "Bearer canary-web-token",
    "HF_TOKEN": "hf_canaryhubtoken",
}
MODEL = "tiny-llm"
LOST_LOCK = 6
MIB = 1 << 20


@functools.cache
def compile_payload() -> None:
    """Write the payload's bytecode once: its pods write none, and each run here would compile it
    again.
    """
    compileall.compile_dir(PAYLOAD_HOME / "payload", quiet=1)


@functools.cache
def safetensors(size: int, seed: int) -> bytes:
    """A valid safetensors file of exactly `size` bytes with one tensor of noise."""
    room = 128
    header = {
        "w": {"dtype": "U8", "shape": [size - 8 - room], "data_offsets": [0, size - 8 - room]}
    }
    noise = random.Random(seed).randbytes(size - 8 - room)  # noqa: S311 - noise for a file, nothing secret
    return struct.pack("<Q", room) + json.dumps(header).encode().ljust(room) + noise


def tiny_model(*shards: int) -> dict[str, bytes]:
    """Files of a model with shards of so many bytes. By default one travels in segments, and one
    with the other small files.
    """
    shards = shards or (9 * MIB, MIB)
    names = [f"model-{n + 1:05}-of-{len(shards):05}.safetensors" for n in range(len(shards))]
    index = {"metadata": {}, "weight_map": {f"layer.{n}": name for n, name in enumerate(names)}}
    small = {
        "config.json": b'{"model_type": "llama"}',
        "model.safetensors.index.json": json.dumps(index).encode(),
        "empty.txt": b"",
    }
    return small | {
        name: safetensors(size, n) for n, (name, size) in enumerate(zip(names, shards, strict=True))
    }


def small_model() -> dict[str, bytes]:
    """Files of a model without a large one, for tests that are about something else: each large one
    costs four more processes.
    """
    return tiny_model(64 << 10, 64 << 10)


_containers: dict[str, dict[str, Any]] = {}
"""Declared containers by all that they follow from, because many tests run the same Job twice."""


@dataclass
class Job:
    """The container of a preheat Job, run on this machine: its command and environment, with mounts
    mapped to directories.
    """

    target: Path
    source: ModelSource
    mounts: Mapping[str, Path] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    preheat: Mapping[str, Any] = field(default_factory=dict)
    tuning: Mapping[str, Any] = field(default_factory=dict)
    name: str = "tiny"
    claim: VolumeClaim = field(default_factory=lambda: VolumeClaim(name="shared"))
    invariants: Any = None
    """Checks what holds at any moment, at the start and at the end of every run (invariants.py)."""
    repair: Callable[[Job], Job | None] = lambda _job: None
    """Ends a fault that is neither a server's nor a system call's; the Job to run then, if it is
    another one.
    """

    def __post_init__(self) -> None:
        key = repr((self.name, self.weights, self.preheat, self.source, self.claim))
        if key not in _containers:
            _containers[key] = self._declared()
        self._container = _containers[key]
        env = {each["name"]: self._value(each) for each in self._container["env"]}
        request = json.loads(env["PREHEAT_REQUEST"])
        self.directory = self.target / request["directory"]
        # Leases and connections that no busy machine loses; tests that are about losing them say
        # shorter times.
        fast = {
            "backoff_seconds": 0.02,
            "report_seconds": 60.0,
            "lease_seconds": 600.0,
            "segment_bytes": 64 * MIB,
            "stall_seconds": 60.0,
        }
        request |= {**fast, "target": str(self.target), **self.tuning}
        for mounted, here in self.mounts.items():
            request |= {
                key: request[key].replace(mounted, str(here))
                for key in ("root", "mount")
                if key in request
            }
            if "PREHEAT_CA_BUNDLE" in env:
                env["PREHEAT_CA_BUNDLE"] = env["PREHEAT_CA_BUNDLE"].replace(
                    f"{mounted}/", f"{here}/", 1
                )
        env["PREHEAT_REQUEST"] = json.dumps(request)
        # A third of the processor time of an rclone that reads little goes into its garbage
        # collections.
        self.env = env | {"GOGC": "400"}

    def _declared(self) -> dict[str, Any]:
        weights = WeightsSpec.model_validate({"store": "weights", "path": MODEL, **self.weights})
        preheat = PreheatSpec.model_validate({"into": "shared", **self.preheat})
        recording = declare(
            lambda: PreheatJob(
                self.name,
                weights,
                preheat,
                source=self.source,
                target=self.claim,
                namespace="inference",
            )
        )
        return recording.one("kubernetes:batch/v1:Job").inputs["spec"]["template"]["spec"][
            "containers"
        ][0]

    def _value(self, variable: Mapping[str, Any]) -> str:
        if "value" in variable:
            return variable["value"]
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return SECRET[source["secretKeyRef"]["key"]]
        own = {
            "name": f"{self.name}-pod",
            "namespace": "inference",
            "labels['batch.kubernetes.io/job-name']": f"{self.name}-preheat-0a",
            "spec.nodeName": "a",
        }
        return own[source["fieldRef"]["fieldPath"].removeprefix("metadata.")]

    def start(self, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        """The running container, its output readable as text; `before` is a command that starts it."""
        compile_payload()
        return Container(self, [*before, sys.executable, *self._container["command"][1:]])

    def run(self, timeout: float = PATIENCE_SECONDS, before: Sequence[str] = ()) -> Outcome:
        """Run to the end."""
        process = self.start(before)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_group(process)
            raise
        return Outcome(process.returncode, output)

    def retried(self, before: Sequence[str] = ()) -> Outcome:
        """Run as Kubernetes does, anew after a lost lock: on a machine that is busy a lease of a
        second may pass unrenewed.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            outcome = self.run(before=before)
            if outcome.code != LOST_LOCK or time.monotonic() > end:
                return outcome

    def underway(
        self, reached: Callable[[], bool], before: Sequence[str] = (), *, may_fail: bool = False
    ) -> subprocess.Popen[str]:
        """A run that has come as far as `reached` says, or is over by then; started again after a
        lost lock, as in `retried`.

        With `may_fail`, it may also be over because it refused what the source gave it.
        """
        while True:
            process = self.start(before)
            while not reached() and process.poll() is None:
                time.sleep(0.01)
            if process.poll() in (None, 0) or (may_fail and process.returncode != LOST_LOCK):
                return process
            output, _ = process.communicate()
            assert process.returncode == LOST_LOCK, output

    def staged(self) -> int:
        """Bytes that are written of files that are not READY."""
        found = (
            path.stat()
            for path in (self.target / ".inferplan" / "staging").rglob("files/**/*")
            if path.is_file()
        )
        return sum(min(status.st_blocks * 512, status.st_size) for status in found)

    def expire(self) -> None:
        """As if the lock of a dead holder had expired, which the tests in test_clocks.py wait for."""
        shutil.rmtree(self.target / ".inferplan" / "locks", ignore_errors=True)

    @property
    def ready(self) -> bool:
        """Whether READY is there."""
        return (self.directory / "READY").is_file()

    def files(self) -> dict[str, bytes]:
        """What a server that mounts the directory would read."""
        found = (
            path
            for path in self.directory.rglob("*")
            if path.is_file() and path.name not in ("READY", "READY.damaged", "READY.sizes")
        )
        return {path.relative_to(self.directory).as_posix(): path.read_bytes() for path in found}


class Container(subprocess.Popen[str]):
    """A running container of a Job, whose end the Job's invariants hear of, however a test waits
    for it.
    """

    def __init__(self, job: Job, command: Sequence[str]) -> None:
        self._job: Job | None = None
        super().__init__(
            command,
            cwd=PAYLOAD_HOME,
            env=job.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if job.invariants is not None:
            self._job = job
            job.invariants.started(job, self)

    def poll(self) -> int | None:
        code = super().poll()
        self._report(None)
        return code

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        self._report(None)
        return code

    def communicate(
        self,
        input: str | None = None,  # noqa: A002 - the name in Popen
        timeout: float | None = None,
    ) -> tuple[str, str]:
        job, self._job = self._job, None
        try:
            texts = super().communicate(input, timeout)
        finally:
            self._job = job
        self._report(texts[0])
        return texts

    def _report(self, output: str | None) -> None:
        job = self._job
        if job is not None and self.returncode is not None:
            self._job = None
            job.invariants.ended(job, self, self.returncode, output)


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a run."""

    code: int
    output: str


def kill_group(process: subprocess.Popen[str]) -> None:
    """kill -9 of a container: its first process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


class Listener:
    """Reads what a running container says, line by line, so that a test can wait for words of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(self._process.stdout)

    def said(self, words: str) -> bool:
        """Whether a line of it holds `words`."""
        return any(words in line for line in list(self.lines))

    def end(self) -> Outcome:
        """Waits for the end of the container."""
        code = self._process.wait(PATIENCE_SECONDS)
        self._thread.join(PATIENCE_SECONDS)
        return Outcome(code, "".join(self.lines))


def refused(outcome: Outcome, preheat: Job, code: int, *words: str) -> None:
    """Assert that a run ended with `code`, said `words`, and left nothing READY."""
    assert outcome.code == code, outcome.output
    for word in words:
        assert word in outcome.output, outcome.output
    assert "Traceback" not in outcome.output
    assert not preheat.ready


def verified(outcome: Outcome, preheat: Job, files: Mapping[str, bytes]) -> None:
    """Assert that a run ended READY with exactly `files`."""
    assert outcome.code == 0, outcome.output
    assert preheat.ready
    assert preheat.files() == files
