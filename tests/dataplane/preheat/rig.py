"""The payload of a preheat, run on this machine as its container would, and what its tests have in common."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.handles import ModelSource, VolumeClaim
from components.preheat.preheat_job import PreheatJob
from components.preheat.spec import PreheatSpec
from components.storage.spec import WeightsSpec
from tests.recorder import declare

PAYLOAD_HOME = Path(__file__).parents[3] / "components" / "preheat"
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
def safetensors(size: int, seed: int) -> bytes:
    """A valid safetensors file of exactly `size` bytes with one tensor of noise."""
    room = 128
    header = {"w": {"dtype": "U8", "shape": [size - 8 - room], "data_offsets": [0, size - 8 - room]}}
    noise = random.Random(seed).randbytes(size - 8 - room)  # noqa: S311 - noise for a file, nothing secret
    return struct.pack("<Q", room) + json.dumps(header).encode().ljust(room) + noise


def tiny_model(shards: int = 2, shard_bytes: int = 12 * MIB) -> dict[str, bytes]:
    """Files of a sharded model: large enough shards to travel in segments, and small files beside them."""
    names = [f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
    index = {"metadata": {}, "weight_map": {f"layer.{n}": name for n, name in enumerate(names)}}
    small = {"config.json": b'{"model_type": "llama"}', "model.safetensors.index.json": json.dumps(index).encode(), "empty.txt": b""}
    return small | {name: safetensors(shard_bytes, n) for n, name in enumerate(names)}


@dataclass
class Job:
    """The container of a preheat Job, run on this machine: its command and environment, with mounts mapped to directories."""

    target: Path
    source: ModelSource
    mounts: Mapping[str, Path] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    preheat: Mapping[str, Any] = field(default_factory=dict)
    tuning: Mapping[str, Any] = field(default_factory=dict)
    name: str = "tiny"
    claim: VolumeClaim = field(default_factory=lambda: VolumeClaim(name="shared"))

    def __post_init__(self) -> None:
        weights = WeightsSpec.model_validate({"store": "weights", "path": MODEL, **self.weights})
        preheat = PreheatSpec.model_validate({"into": "shared", **self.preheat})
        recording = declare(lambda: PreheatJob(self.name, weights, preheat, source=self.source, target=self.claim, namespace="inference"))
        pod = recording.one("kubernetes:batch/v1:Job").inputs["spec"]["template"]["spec"]
        self._container = pod["containers"][0]
        env = {each["name"]: self._value(each) for each in self._container["env"]}
        request = json.loads(env["PREHEAT_REQUEST"])
        self.directory = self.target / request["directory"]
        fast = {"backoff_seconds": 0.02, "report_seconds": 0.2, "lease_seconds": 3.0, "segment_bytes": 64 * MIB, "stall_seconds": 5.0}
        request |= {**fast, "target": str(self.target), **self.tuning}
        for mounted, here in self.mounts.items():
            request["root"] = request["root"].replace(mounted, str(here))
        env["PREHEAT_REQUEST"] = json.dumps(request)
        self.env = env

    def _value(self, variable: Mapping[str, Any]) -> str:
        if "value" in variable:
            return variable["value"]
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return SECRET[source["secretKeyRef"]["key"]]
        own = {"name": f"{self.name}-pod", "namespace": "inference", "labels['batch.kubernetes.io/job-name']": f"{self.name}-preheat-0a"}
        return own[source["fieldRef"]["fieldPath"].removeprefix("metadata.")]

    def start(self, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        """The running container, its output readable as text; `before` is a command that starts it."""
        command = [*before, sys.executable, *self._container["command"][1:]]
        return subprocess.Popen(
            command, cwd=PAYLOAD_HOME, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def run(self, timeout: float = 90, before: Sequence[str] = ()) -> Outcome:
        """Run to the end."""
        process = self.start(before)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_group(process)
            raise
        return Outcome(process.returncode, output)

    def retried(self, before: Sequence[str] = ()) -> Outcome:
        """Run as Kubernetes does, anew after a lost lock: on a machine that is busy a lease of a second may pass unrenewed."""
        for _ in range(4):
            outcome = self.run(before=before)
            if outcome.code != LOST_LOCK:
                return outcome
        return self.run(before=before)

    @property
    def ready(self) -> bool:
        """Whether READY is there."""
        return (self.directory / "READY").is_file()

    def files(self) -> dict[str, bytes]:
        """What a server that mounts the directory would read."""
        found = (path for path in self.directory.rglob("*") if path.is_file() and path.name not in ("READY", "READY.partial"))
        return {path.relative_to(self.directory).as_posix(): path.read_bytes() for path in found}


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
