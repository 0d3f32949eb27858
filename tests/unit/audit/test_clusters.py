from __future__ import annotations

import contextlib
import fcntl

import pytest

from inferplan.audit.clusters import own_cluster
from inferplan.errors import ClusterError
from inferplan.rehearsal.apply.run import exclusive
from inferplan.rehearsal.cluster import clusters
from inferplan.rehearsal.cluster.components import LISTENING
from inferplan.rehearsal.cluster.record import Record, cluster_directory, lock_file, write_record


@pytest.fixture(autouse=True)
def no_start(tmp_path, monkeypatch):
    def start(*_):
        raise ClusterError("nothing is started here", "")

    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("inferplan.audit.clusters.start", start)


def make_cluster(name: str):
    directory = cluster_directory(name)
    directory.mkdir(parents=True)
    write_record(directory, Record("uid", "v1", dict.fromkeys(LISTENING, 1), "", ""))
    return directory


def remaining() -> set[str]:
    with pytest.raises(ClusterError), own_cluster(lambda _: None):
        pass
    return set(clusters())


@pytest.mark.parametrize("command", ["inferplan audit", "up"])
def test_the_cluster_of_a_killed_audit_is_deleted_by_the_next_one(command):
    with exclusive(make_cluster("audit-00000001"), command=command):
        assert remaining() == {"audit-00000001"}
    assert remaining() == ({"audit-00000001"} if command == "up" else set())


def test_a_start_that_was_killed_is_deleted_and_one_that_runs_stays():
    directory = cluster_directory("audit-00000002")
    directory.mkdir(parents=True)
    with contextlib.closing(lock_file(directory).open("wb")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert remaining() == {"audit-00000002"}
    assert remaining() == set()


def test_a_cluster_without_a_record_of_its_command_stays():
    make_cluster("audit-00000003")
    make_cluster("audit-mine")
    assert remaining() == {"audit-00000003", "audit-mine"}
