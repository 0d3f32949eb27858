"""After a run that was killed, a dead component or a foreign program, the next start returns a
working cluster.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.progress import Notice
from inferplan.rehearsal.cluster import delete, require_owned, start, status
from inferplan.rehearsal.cluster.components import API_SERVER, COMPONENTS
from inferplan.rehearsal.cluster.processes import end, running
from inferplan.rehearsal.cluster.startup import is_free
from tests.lanes import in_full

pytestmark = pytest.mark.cluster

# Goes no further than the step that the second argument names until it is told to, or dies once the
# file is there that the third names.
START = """
import os, signal, sys
from inferplan.rehearsal.cluster import start
from inferplan.progress import line_of

_, name, step, last_file = sys.argv
held = []

def tell(event):
    print(line_of(event), flush=True)
    if step and step in line_of(event) and not held:
        held.append(sys.stdin.readline())

def watch(*_):
    if os.path.exists(last_file):
        signal.raise_signal(signal.SIGKILL)  # os.kill would be an event itself

if last_file:
    sys.addaudithook(watch)
made = start(name, tell)
print("outcome", made.outcome, made.uid, flush=True)
"""


def starting(name, *, held_at="", last_file=""):
    command = [sys.executable, "-c", START, name, held_at, str(last_file)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def await_line(process, part):
    """Read what the process prints until a line holds `part`."""
    assert process.stdout is not None
    for line in process.stdout:
        if part in line:
            return
    raise AssertionError(f"the start ended without {part!r}")


def kill(pid):
    """Kill a process and wait until the kernel says that it is gone."""
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [])
    finally:
        os.close(handle)


def one_of_each(directory):
    found = running(directory)
    return sorted(found) == sorted(COMPONENTS) and all(len(pids) == 1 for pids in found.values())


@pytest.fixture(scope="module")
def starts(state_directory):  # noqa: ARG001 - it must be set before a cluster starts
    """The results of two processes that started the cluster `victim` at the same time: outcome and
    uid of each.
    """
    first = starting("victim", held_at="start etcd")
    await_line(first, "start etcd")
    second = starting("victim")
    await_line(
        second, f"start the cluster victim: waiting for process {first.pid} that is doing the same"
    )
    outputs = [each.communicate("go on\n")[0] for each in (first, second)]
    return [output.strip().splitlines()[-1].split()[1:] for output in outputs]


@pytest.fixture(scope="module")
def victim(starts):  # noqa: ARG001 - the cluster is theirs
    """A cluster that the tests of this file maim in turn; each leaves it working."""
    yield start("victim")
    delete("victim")


def test_two_concurrent_starts_create_one_cluster_and_second_reports_its_wait(starts, victim):
    assert [outcome for outcome, _ in starts] == ["created", "reused"]
    assert {uid for _, uid in starts} == {victim.uid}
    assert one_of_each(victim.directory)


def test_cluster_outlives_processes_that_started_it(victim):
    assert victim.outcome == "reused"
    assert status("victim") == "running"


@pytest.mark.parametrize(
    "component", ["etcd", *in_full(*(each for each in COMPONENTS if each != "etcd"))]
)
def test_a_killed_component_is_started_again_and_the_data_is_kept(victim, component):
    kill(running(victim.directory)[component][0])

    mended = start("victim")

    assert (mended.outcome, mended.uid) == ("repaired", victim.uid)
    assert f"{component} is not running, so it is started again" in mended.repairs
    assert one_of_each(victim.directory)
    assert start("victim").outcome == "reused"


def test_hanging_component_is_restarted(victim):
    frozen = running(victim.directory)["kube-scheduler"][0]
    os.kill(frozen, signal.SIGSTOP)

    mended = start("victim")

    assert mended.outcome == "repaired"
    assert mended.repairs == (
        "kube-scheduler reports a problem: its process is stopped, so it is started again",
    )
    assert running(victim.directory)["kube-scheduler"] != [frozen]


@pytest.mark.full
def test_cluster_keeps_its_data_after_restart_of_computer(victim):
    for pids in running(victim.directory).values():
        for pid in pids:
            kill(pid)
    record = victim.directory / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"boot": "an earlier boot"}))

    mended = start("victim")

    assert (mended.outcome, mended.uid) == ("repaired", victim.uid)
    assert mended.repairs == (
        "the computer was restarted, so the control plane is started again with its data",
    )


def test_status_is_broken_until_cluster_is_repaired(victim):
    kill(running(victim.directory)["kwok"][0])

    assert status("victim") == "broken"
    assert start("victim").outcome == "repaired"


@pytest.mark.full
def test_cluster_whose_port_was_taken_moves_to_another_port_with_its_kubeconfig(victim):
    before = start("victim")
    end(victim.directory)
    port = int(before.server.rpartition(":")[2])
    # The kernel frees the port of a killed process a moment after that has vanished.
    while not is_free(port):
        pass
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        moved = start("victim")

    assert (moved.outcome, moved.uid) == ("repaired", victim.uid)
    assert moved.server != before.server
    assert f"port {port} of {API_SERVER} was taken by another program" in moved.repairs[-1]
    assert require_owned(moved.kubeconfig) == moved


def test_cluster_with_damaged_data_is_created_again_with_a_notice(victim):
    made = start("victim")
    end(victim.directory)
    for log in (victim.directory / "etcd" / "member").rglob("*.wal"):
        log.write_bytes(b"not a write-ahead log")
    events = []

    anew = start("victim", events.append)

    assert anew.outcome == "recreated"
    assert anew.uid != made.uid
    assert any("the repair failed" in event.text for event in events if isinstance(event, Notice))
    assert "its data is lost" in anew.repairs[0]


@pytest.mark.parametrize("content", in_full(b'{"format": 1, "uid"', b"", b"[]", b'{"format": 99}'))
def test_cluster_with_unreadable_record_is_created_again(victim, content):
    (victim.directory / "record.json").write_bytes(content)

    anew = start("victim")

    assert anew.outcome == "recreated"
    assert one_of_each(victim.directory)


@pytest.mark.parametrize("component", ["kube-controller-manager", *in_full("etcd", "kwok")])
@pytest.mark.full
def test_start_succeeds_after_start_that_was_killed_while_waiting(own_state, component):
    with starting("cut", held_at=f"start {component}") as first:
        await_line(first, f"start {component}")
        first.kill()
    directory = own_state / "clusters" / "cut"
    assert "etcd" in running(directory)
    assert status("cut") == "broken"

    made = start("cut")

    assert (made.outcome, made.repairs) == ("recreated", ("an earlier start was interrupted",))
    assert one_of_each(directory)


@pytest.mark.full
def test_start_succeeds_after_start_that_was_killed_at_any_moment(own_state):
    """The moment is the first thing that the start does after a file has appeared."""
    directory = own_state / "clusters" / "sweep"
    for moment in (
        "pki/ca.crt",
        "pki/tokens.key",
        "pki/admin.csv",
        "kubeconfig",
        "stages.yaml",
        "logs/etcd.log",
        "logs/kube-apiserver.log",
        "logs/kwok.log",
    ):
        with starting("sweep", last_file=directory / moment) as first:
            first.communicate()
        assert first.returncode == -signal.SIGKILL, moment
        made = start("sweep")
        assert made.outcome in {"recreated", "created"}, moment
        assert one_of_each(directory), moment
        delete("sweep")


def test_delete_finishes_a_delete_that_was_killed_and_spares_similar_processes(victim, tmp_path):
    """The last test of this file: the victim is gone."""
    made = start("victim")
    (victim.directory / "record.json").unlink()
    (victim.directory / "kubeconfig").unlink()
    impostor = tmp_path / "etcd"
    impostor.symlink_to("/bin/sleep")
    others = [
        subprocess.Popen([impostor, "600"]),
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", f"{made.directory}/etcd"]
        ),
    ]
    try:
        assert delete("victim")
        assert [each.poll() for each in others] == [None, None]
    finally:
        for each in others:
            each.kill()
            each.wait()
    assert running(made.directory) == {}
    assert not Path(made.directory).exists()
