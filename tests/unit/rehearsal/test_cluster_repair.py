"""Health checks on a busy computer, and the repair of a cluster whose port another program takes."""

from __future__ import annotations

import os

import pytest

from inferplan.errors import ClusterError
from inferplan.rehearsal.cluster import lifecycle, making, processes
from inferplan.rehearsal.cluster.components import COMPONENTS, LISTENING
from inferplan.rehearsal.cluster.record import Record
from inferplan.rehearsal.cluster.startup import PortTakenError

RECORD = Record(
    "uid", "v1", {name: 1000 + number for number, name in enumerate(LISTENING)}, "digest", "boot"
)


@pytest.fixture
def well(monkeypatch):
    """A cluster whose components run in pretence; returns what each of them answers, in order,
    before it is well.
    """
    answers: dict[str, list[str]] = {}

    def answer(_client, url, _timeout):
        port = int(url.rpartition(":")[2].partition("/")[0])
        said = answers.get(next(name for name, each in RECORD.ports.items() if each == port), [])
        return said.pop(0) if said else None

    monkeypatch.setattr(
        processes, "running", lambda _directory: {name: [os.getpid()] for name in COMPONENTS}
    )
    monkeypatch.setattr("inferplan.kube.api.Api.health_problem", answer)
    monkeypatch.setattr(lifecycle, "identity", lambda _api: "uid")
    monkeypatch.setattr(lifecycle, "_POLL_SECONDS", 0.0)
    return answers


def test_component_that_is_unhealthy_for_a_moment_is_not_reported(well, tmp_path):
    well["kube-apiserver"] = ["etcd", "timed out"]
    assert lifecycle.problems(tmp_path, RECORD) == {}
    assert well["kube-apiserver"] == []


def test_a_component_that_stays_unhealthy_is_reported(well, tmp_path, monkeypatch):
    monkeypatch.setattr(lifecycle, "_PATIENCE_SECONDS", 0.0)
    well["kwok"] = ["HTTP 500"]
    assert lifecycle.problems(tmp_path, RECORD) == {"kwok": "reports a problem: HTTP 500"}


@pytest.mark.usefixtures("well")
def test_a_stopped_process_is_reported_without_a_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "is_stopped", lambda _pid: True)
    assert set(lifecycle.problems(tmp_path, RECORD).values()) == {
        "reports a problem: its process is stopped"
    }


@pytest.fixture
def starts(monkeypatch):
    """Pretends to start components: each start ends as the list that is returned says, and leaves
    what it was asked for.
    """
    ends, asked = [], []

    def bring_up(layout, _toolchain, _progress, wanted):
        asked.append((layout.ports == RECORD.ports, wanted))
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(making, "_bring_up", bring_up)
    monkeypatch.setattr(making, "ensure", lambda _progress: None)
    monkeypatch.setattr(making, "is_free", lambda _port: True)
    monkeypatch.setattr(processes, "end", lambda *_: [])
    return ends, asked


def test_repair_is_tried_again_when_a_port_is_taken(starts, tmp_path):
    ends, asked = starts
    ends += [PortTakenError("taken", "again"), RECORD]
    mended = making.repair(tmp_path, RECORD, {"kwok": "is not running"}, lambda _event: None)
    assert mended is not None
    assert (mended.outcome, mended.uid) == ("repaired", "uid")
    assert asked == [(True, ("kwok",)), (True, COMPONENTS)]


def test_repair_is_not_tried_again_after_another_error(starts, tmp_path):
    ends, told = starts[0], []
    ends += [ClusterError("kwok ended", "read its log")]
    assert making.repair(tmp_path, RECORD, {"kwok": "is not running"}, told.append) is None
    assert told[-1].text == "the repair failed: kwok ended"
