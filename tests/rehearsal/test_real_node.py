"""A node with a kubelet next to the fake ones: the pods that we generate run, a real model answers,
and all is gone at the end. Skipped with the reason where the machine cannot run one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from inferplan.errors import ClusterError
from inferplan.kube.objects import is_true
from inferplan.progress import plain, silent
from inferplan.rehearsal.cluster import delete, start
from inferplan.rehearsal.cluster.node_traces import name_on_machine
from inferplan.rehearsal.node import images, node, tiny_model
from inferplan.rehearsal.toolchain.pins import KUBELET, SOURCES
from tests.rehearsal.real_node import PROGRAMS, REASON, ROOT, Lane, memory_of, processes_of, until

PODS = "/api/v1/namespaces/inference/pods"
GATEWAYS = "app.kubernetes.io/component=gateway"
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(REASON), reason=REASON or "a real node"),
]
NO_ENGINE = images.reason_against("vllm")
with_engine = pytest.mark.skipif(bool(NO_ENGINE), reason=f"no real vLLM: {NO_ENGINE}")


@with_engine
def test_a_real_model_answers_through_the_real_gateway(real_node: Lane):
    assert real_node.output.splitlines()[-1] == tiny_model.SENTENCE
    document = json.loads(real_node.run("status", str(real_node.stack), "--json").stdout)
    assert [each["server"] for each in document["models"]] == ["real"]
    with urllib.request.urlopen(real_node.request(stream=True)) as answer:  # noqa: S310 - on loopback
        lines = [line.decode().strip() for line in answer if line.startswith(b"data: {")]
    parts = [json.loads(each.removeprefix("data: ")) for each in lines]
    words = [each["choices"][0]["delta"].get("content") or "" for each in parts if each["choices"]]
    assert "".join(words) == tiny_model.SENTENCE
    # On a busy machine vLLM sends tokens together that are ready before the last piece has left.
    assert len(words) >= len(tiny_model.SENTENCE.split()) // 2
    # A call without a key is denied by the real nginx.
    with pytest.raises(urllib.error.HTTPError) as denied:
        urllib.request.urlopen(f"{real_node.url}/v1/models")  # noqa: S310 - on loopback
    assert denied.value.code == 401


def test_the_node_is_small_starts_in_seconds_and_listens_inside_its_network(real_node: Lane):
    pods = start(real_node.cluster).get(PODS)["items"]
    assert {each["spec"]["nodeName"] for each in pods} == {node.NAME}
    [seconds] = re.findall(rf"start node {node.NAME}: done in ([0-9.]+) s", real_node.output)
    supervisors = [
        pid for pid, _ in processes_of(node.folder_of(real_node.directory) / "plan.json")
    ]
    memory = memory_of([*supervisors, *real_node.programs().values()])
    print(f"node start {seconds} s, memory without models {memory:.0f} MiB")
    assert float(seconds) < 15
    assert memory < 400
    # The kubelet sets the kernel's parameters in copies, so this machine keeps its own.
    mounts = Path(f"/proc/{real_node.programs()['kubelet']}/mountinfo").read_text()
    for name in ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"):
        assert f"/proc/sys/{name} " in mounts
    # 0.0.0.0 and [::] in the tables of this machine's own network.
    for name in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        ports = {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}
        assert not ports & {53, 10250, 10256}


def test_a_rotation_and_a_drain_lose_no_call(real_node: Lane, tmp_path):
    log = tmp_path / "load.json"
    port = real_node.url.rpartition(":")[2]
    load = subprocess.Popen(
        [sys.executable, "-m", "tests.rehearsal.steady_calls", port, str(log)], cwd=ROOT
    )
    until(log.exists)
    stack = tmp_path / real_node.stack.name
    shutil.copy(real_node.stack, stack)
    real_node.run("keys", "add", "chat", "--stack", str(stack))
    assert "keys: [2, 1]" in stack.read_text()
    real_node.run("up", str(stack), "--node", "real")

    cluster = start(real_node.cluster)

    def gateways() -> dict[str, bool]:
        items = cluster.get(f"{PODS}?labelSelector={GATEWAYS}")["items"]
        return {
            each["metadata"]["name"]: is_true(each, "Ready")
            for each in items
            if "deletionTimestamp" not in each["metadata"]
        }

    until(lambda: list(gateways().values()) == [True, True])
    old = set(gateways())
    options = ("--pod-selector", GATEWAYS, "--delete-emptydir-data", "--ignore-daemonsets")
    with real_node.kubectl("drain", node.NAME, *options) as drain:
        # One pod is left, and its disruption budget keeps it while the node is cordoned.
        until(lambda: sorted(gateways().values()) == [False, True])
        assert drain.poll() is None
        with real_node.kubectl("uncordon", node.NAME):
            pass
        printed, _ = drain.communicate()
    assert drain.returncode == 0, printed
    until(lambda: list(gateways().values()) == [True, True])
    assert not old & set(gateways())
    load.send_signal(signal.SIGINT)
    load.wait()
    answers = json.loads(log.read_text())
    print(f"calls during a rotation and a drain: {answers}")
    assert answers["200"] > 20
    assert answers.keys() == {"200"}, answers
    # The hooks of the pods that ended are no failures.
    events = cluster.get("/api/v1/namespaces/inference/events")["items"]
    reasons = {each["reason"] for each in events}
    assert "Killing" in reasons
    assert "FailedPreStopHook" not in reasons


def test_logs_exec_and_port_forward_reach_the_pods(real_node: Lane):
    inside = ("--namespace", "inference")
    with real_node.kubectl(
        "exec", *inside, "deployment/gateway", "--container", "nginx", "--", "nginx", "-v"
    ) as version:
        assert "nginx version: nginx/" in version.communicate()[0]
    with real_node.kubectl(
        "port-forward", *inside, "service/gateway", ":80", "--address", "127.0.0.1"
    ) as forward:
        assert forward.stdout is not None
        [port] = re.findall(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
        with pytest.raises(urllib.error.HTTPError) as denied:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models")
        assert denied.value.code == 401
        forward.terminate()

    def logged() -> bool:
        options = ("--selector", GATEWAYS, "--container", "nginx", "--tail", "20")
        with real_node.kubectl("logs", *inside, *options) as lines:
            return '"status":401' in lines.communicate()[0]

    until(logged)


def test_kills_of_its_programs_are_repaired(real_node: Lane):
    killed = real_node.programs()
    assert {*killed} == {*PROGRAMS}
    for each in killed.values():
        os.kill(each, signal.SIGKILL)

    def started_again() -> bool:
        programs = real_node.programs()
        return programs.keys() == killed.keys() and {*programs.values()}.isdisjoint(killed.values())

    until(started_again)
    until(real_node.answers)


@pytest.mark.full
def test_the_node_and_another_kubelet_of_this_machine_leave_each_other_alone(real_node: Lane):
    """Both have the same name, addresses and ports, each in a network of its own."""
    names = ("kubelet", "containerd")
    before = {name: real_node.programs()[name] for name in names}
    other = start("other-kubelet", plain)
    try:
        node.start(other, [], silent)
        assert is_true(other.get(f"/api/v1/nodes/{node.NAME}"), "Ready")
        assert real_node.answers()
    finally:
        delete("other-kubelet")
    assert {name: real_node.programs()[name] for name in names} == before
    assert real_node.answers()
    assert not processes_of(other.directory)
    group = name_on_machine(other.directory)
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{group}"))


@pytest.mark.full
@pytest.mark.usefixtures("own_state")
def test_a_port_that_is_busy_ends_in_one_line_and_leaves_nothing(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(node, "free_ports", lambda names: dict.fromkeys(names, port))
        cluster = start("busy", plain)
        with pytest.raises(ClusterError) as error:
            node.start(cluster, [], silent)
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in error.value.log_tail
    assert not any("Traceback" in line for line in error.value.log_tail)
    assert not processes_of(node.folder_of(cluster.directory))
    name = name_on_machine(cluster.directory)
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{name}"))
    assert not (Path("/run") / name).exists()


@pytest.mark.full
@with_engine
def test_a_killed_engine_starts_again_and_status_says_why_it_was_away(real_node: Lane):
    cluster = start(real_node.cluster)
    [engine] = [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if (entry / "comm").read_text() == "VLLM::EngineCor\n"
        and name_on_machine(real_node.directory) in (entry / "cgroup").read_text()
    ]
    os.kill(engine, signal.SIGKILL)

    def state() -> dict:
        [pod] = cluster.get(f"{PODS}?labelSelector=app.kubernetes.io/instance=tiny")["items"]
        [server] = pod["status"]["containerStatuses"]
        return server

    until(lambda: state()["restartCount"])
    away = real_node.run("status", str(real_node.stack), check=False)
    assert "ended with exit code" in away.stdout + away.stderr
    until(real_node.answers)


def test_the_programs_have_the_version_of_the_control_plane():
    assert KUBELET.version == next(each.version for each in SOURCES if each.name == "kubernetes")
