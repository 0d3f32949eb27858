"""The real node that the tests of `test_real_node*.py` share: one start of the stack of CPU models,
and what looks at its processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferplan.components.gateway.keys import consumer_key
from inferplan.images.catalogue import default_image
from inferplan.kube.api import Api
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.rehearsal.cluster.components import NODE
from inferplan.rehearsal.cluster.processes import running
from inferplan.rehearsal.cluster.record import cluster_directory
from inferplan.rehearsal.node import machine, node
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.pins import KUBELET
from inferplan.stackfile.reader import read_stack
from inferplan.tables import table
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
STACKS = ROOT / "docs" / "real-node"
PASSPHRASE = "inferplan-example"  # noqa: S105 - that of public examples
REASON = machine.missing()
PROGRAMS = tuple(table("rehearsal/node/node.toml")["programs"])


@dataclass(frozen=True)
class Lane:
    """A running node: the state directory, the stack file of CPU models, and what its `up` printed."""

    state: Path
    stack: Path
    output: str

    @property
    def cluster(self) -> str:
        return self.stack.stem.removeprefix("Pulumi.")

    @property
    def directory(self) -> Path:
        return cluster_directory(self.cluster)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{node.port_of(self.cluster)}"

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run(self.state, *arguments, check=check)

    def kubectl(self, *arguments: str) -> subprocess.Popen[str]:
        """Start kubectl of the node's version, with both outputs in one stream."""
        program = ensure_source(KUBELET) / "kubectl"
        return subprocess.Popen(
            [str(program), "--kubeconfig", str(self.directory / "kubeconfig"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def programs(self) -> dict[str, int]:
        """The ids of the node's programs, by name. Some name only the kubeconfig of the cluster."""
        # The oldest of a name last: a child has its parent's command line until it runs another.
        processes = sorted(processes_of(self.directory), reverse=True)
        pids = {Path(words[0]).name: pid for pid, words in processes}
        return {name: pids[name] for name in PROGRAMS if name in pids}

    def answers(self) -> bool:
        done = self.run("call", "tiny", "hello", "--stack", str(self.stack), check=False)
        return done.returncode == 0

    def request(self, **fields: object) -> urllib.request.Request:
        """A chat request of the consumer `chat`."""
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], **fields}
        headers = {"Authorization": f"Bearer {key()}", "Content-Type": "application/json"}
        return urllib.request.Request(  # noqa: S310 - a fixed scheme
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(), headers
        )


def end_node_while_a_model_loads(state: Path, stack: Path, directory: Path) -> None:
    """Bring the stack up until its gateway is ready, and kill the node with everything on it. A
    model that loads costs most of the time of these tests, so it loads to the end only once.
    """
    first = subprocess.Popen(
        command("up", str(stack), "--node", "real"),
        cwd=ROOT,
        env=environment(state),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert first.stdout is not None
    lines = []
    for line in first.stdout:
        lines.append(line)
        if "Deployment inference/gateway ready" in line:
            break
    supervisors = running(directory).get(NODE, [])
    assert supervisors, "".join(lines)
    for each in supervisors:
        os.kill(each, signal.SIGKILL)
    first.send_signal(signal.SIGINT)
    first.communicate()
    # Everything of the node ends with its first process.
    until(lambda: not processes_of(node.folder_of(directory)))


def apply(api: Api, objects: Iterable[dict[str, Any]]) -> None:
    for each in objects:
        metadata = each["metadata"]
        resource = api.resource(each["apiVersion"], each["kind"])
        path = resource.path(metadata.get("namespace", ""), metadata["name"])
        api.apply(path, each, manager="kubectl", force=True)


def space(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def idle_pod(name: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """A pod that does nothing: a test runs servers in its network."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "nodeName": node.NAME,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "pause", "image": default_image("pause")}],
        },
    }


def environment(state: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "INFERPLAN_STATE_DIR": str(state),
    }


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("inferplan")), *arguments]


def run(state: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env=environment(state),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def key() -> str:
    """The first key of `chat` in the committed stack."""
    file = read_stack(STACKS / "Pulumi.cpu.yaml")
    secrets = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=file.secrets_provider,
        environment={"PULUMI_CONFIG_PASSPHRASE": PASSPHRASE},
    )
    return consumer_key(secrets.values["inferplan:apiKeySeed"], "chat", 1)


def processes_of(directory: Path) -> list[tuple[int, list[str]]]:
    """The processes whose command line names `directory`, by id."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(str(directory) in each for each in words):
            lines.append((int(entry.name), words))
    return lines


def memory_of(pids: list[int]) -> float:
    """MiB of memory that belong to the processes, shared pages divided among their users."""
    texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    sizes = [line.split()[1] for each in texts for line in each.splitlines() if line[:4] == "Pss:"]
    return sum(map(int, sizes)) / 1024


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # processes have no event for a test
