"""Fixtures for tests on the real control plane: a cluster that all tests of this folder share, and
temporary state for other tests.

Their scope is this package: a control plane that idles until the end of the session would take
processor time from the tests of other folders.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from inferplan.kube.api import Api
from inferplan.progress import plain
from inferplan.rehearsal.cluster import clusters, delete, start
from inferplan.rehearsal.cluster.node_traces import name_on_machine
from inferplan.rehearsal.cluster.record import cluster_directory
from inferplan.rehearsal.wait.object_events import Waiting
from tests.rehearsal.commands import inferplan, started, up
from tests.rehearsal.real_node import STACKS, Lane, end_node_while_a_model_loads, processes_of, run


@pytest.fixture(scope="package", autouse=True)
def state_directory(tmp_path_factory):
    """A state directory of these tests' own, so that no test meets a cluster that somebody uses."""
    # The system's temporary directory, not pytest's: paths stay short enough to read in an error.
    directory = tmp_path_factory.mktemp("state").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(directory))
        yield directory
        for name in clusters():
            delete(name)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="package")
def cluster(state_directory):  # noqa: ARG001 - it must be set before a cluster starts
    """A running simulated cluster that all tests of this folder share; make names unique, or use
    namespaces.
    """
    return start("shared", plain)


@pytest.fixture(scope="package")
def node_lane(tmp_path_factory) -> Iterator[Lane]:
    """The node that all of `test_real_node*.py` share. It is killed once while its model loads, and
    started again by the next `up`; at the end nothing of it is left.
    """
    state = tmp_path_factory.mktemp("node").resolve()
    stack = state / "Pulumi.cpu.yaml"
    shutil.copy(STACKS / stack.name, stack)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(state))
        directory = cluster_directory("cpu")
        end_node_while_a_model_loads(state, stack, directory)
    done = run(state, "up", str(stack), "--node", "real", check=False)
    lane = Lane(state, stack, done.stderr + done.stdout)
    name = name_on_machine(directory)
    try:
        assert done.returncode == 0, lane.output
        yield lane
    finally:
        run(state, "down", str(stack), "--cluster")
        assert processes_of(directory) == []
        assert str(directory) not in Path("/proc/mounts").read_text()
        assert not directory.exists()
        # Nodes of other clusters have names of their own.
        assert not list(Path("/sys/fs/cgroup").glob(f"**/{name}"))
        assert not (Path("/run") / name).exists()


@pytest.fixture
def real_node(node_lane, monkeypatch) -> Lane:
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(node_lane.state))
    return node_lane


@pytest.fixture(scope="package")
def examples_cluster(state_directory):  # noqa: ARG001 - it must be set before a cluster starts
    """A running simulated cluster for one example at a time. Each file deletes its objects, and the
    last one the cluster.
    """
    return start("examples", plain)


@pytest.fixture(scope="package")
def local_up(tmp_path_factory):
    """A state directory in which `local` is up, and what the command that brought it up printed."""
    directory = tmp_path_factory.mktemp("local")
    done = started(directory, "up", "local", "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr[-3000:]
    yield directory, done.stderr + done.stdout
    for stack in ("local", "onprem"):
        inferplan(directory, "down", stack, "--engine", "rehearsal", "--cluster")


@pytest.fixture
def local_state(local_up):
    """A state directory in which `local` is up; each module leaves it as the stack file says, or
    down.
    """
    directory = local_up[0]
    if not (directory / "clusters" / "local").exists():
        up(directory)
    return directory


def local_api(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A client of the cluster of `local` below `state`."""
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(state))
    cluster = start("local")
    client = cluster.api()
    yield client
    client.close()


@pytest.fixture
def api(local_state, monkeypatch):
    """A client of the cluster in which `local` is up."""
    yield from local_api(local_state, monkeypatch)


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch):
    """A state directory for one test that starts clusters of its own; they are deleted after it."""
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    yield tmp_path / "state"
    for name in clusters():
        delete(name)


@pytest.fixture
def patient(monkeypatch):
    """A function that makes a listener: no limit of a wait is reached before a reason that holds
    the given words was told.

    Whoever gives the reason (the scheduler, a quota) may be slow, and what it says first may be
    another reason. So the clock of those who wait stands still until then.
    """
    now = [0.0]
    monkeypatch.setattr(
        "inferplan.rehearsal.wait.waiter.time", SimpleNamespace(monotonic=lambda: now[0])
    )

    def listener(words: str, hear=lambda _event: None):
        def listen(event):
            hear(event)
            if isinstance(event, Waiting) and words in event.reason:
                now[0] += event.limit + 0.5

        return listen

    return listener
