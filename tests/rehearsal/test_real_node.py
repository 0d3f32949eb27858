"""A node with a kubelet next to the fake ones: the pods that we generate run, answer, and are gone.

Skipped with the reason where the machine cannot run one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from inferplan.rehearsal.cluster import start
from inferplan.rehearsal.cluster.processes import running
from inferplan.rehearsal.cluster.record import cluster_directory
from inferplan.rehearsal.node import node
from inferplan.rehearsal.toolchain.pins import KUBELET, SOURCES
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
STACK = ROOT / "docs" / "real-node" / "Pulumi.small.yaml"
INFERPLAN = Path(sys.executable).with_name("inferplan")
PROGRAMS = ("containerd", "kubelet", "kube-proxy", "coredns")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(node.missing()), reason=node.missing() or "a real node"),
]


def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}
    done = subprocess.run(
        [INFERPLAN, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def processes_of(directory: Path) -> list[tuple[int, list[str]]]:
    """The processes whose command line names the node's folder, by id."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(str(directory) in each for each in words):
            lines.append((int(entry.name), words))
    return lines


def until(condition) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # processes have no event for a test


@pytest.fixture
def stack(tmp_path, monkeypatch):
    """The small stack in a state of its own, with its model's gateway answering from containers."""
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "Pulumi.small.yaml"
    shutil.copy(STACK, path)
    yield path
    run("down", str(path), "--cluster", check=False)


def test_the_gateway_and_a_model_run_in_containers_survive_kills_and_leave_nothing(stack):
    done = run("up", str(stack), "--node", "real")
    assert "tiny: a stub in a container" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("This is the stub of tiny in a container.")
    directory = cluster_directory("small")
    folder = node.folder_of(directory)
    cluster = start("small")
    pods = cluster.get("/api/v1/namespaces/inference/pods")["items"]
    assert {each["spec"]["nodeName"] for each in pods} == {node.NAME}
    assert len(pods) == 3
    # 0.0.0.0 and [::] in the tables of this machine's own network.
    for name in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        ports = {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}
        assert not ports & {53, 10250, 10256}

    # A call without a key is denied by the real nginx.
    port = node.port_of("small")
    with pytest.raises(urllib.error.HTTPError) as denied:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models")
    assert denied.value.code == 401

    # The supervisor starts each program again.
    for name in PROGRAMS:
        [old] = [pid for pid, words in processes_of(folder) if Path(words[0]).name == name]
        os.kill(old, signal.SIGKILL)
        until(
            lambda old=old, name=name: any(
                pid != old and Path(words[0]).name == name for pid, words in processes_of(folder)
            )
        )
    until(lambda: run("call", "tiny", "hello", "--stack", str(stack), check=False).returncode == 0)

    # Without the supervisor everything of the node is gone, and `up` starts it again.
    [supervisor] = running(directory)["node"]
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not processes_of(folder))
    again = run("up", str(stack), "--node", "real")
    assert again.stdout.splitlines()[-1].startswith("This is the stub of tiny in a container.")

    run("down", str(stack), "--cluster")
    assert processes_of(directory) == []
    assert str(directory) not in Path("/proc/mounts").read_text()
    assert not directory.exists()
    # Nodes of other clusters have names of their own.
    name = node.name_on_machine(directory)
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{name}"))
    assert not (Path("/run") / name).exists()


def test_a_rotation_keeps_answering_and_a_pod_of_before_finds_its_keys(stack):
    run("up", str(stack), "--node", "real")
    log = stack.with_name("load.json")
    load = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.rehearsal.steady_calls",
            str(node.port_of("small")),
            str(log),
        ],
        cwd=ROOT,
    )
    until(log.exists)
    run("keys", "add", "chat", "--stack", str(stack))
    assert "keys: [2, 1]" in stack.read_text()
    run("up", str(stack), "--node", "real")
    load.send_signal(signal.SIGINT)
    load.wait()
    answers = json.loads(log.read_text())
    assert answers["200"] > 50
    assert answers.keys() == {"200"}, answers


def test_the_programs_have_the_version_of_the_control_plane():
    assert KUBELET.version == next(each.version for each in SOURCES if each.name == "kubernetes")
