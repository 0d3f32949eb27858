"""What a real node keeps outside its cluster's directory goes when the cluster goes, however it goes."""

from __future__ import annotations

import pytest

from inferplan.rehearsal.cluster import delete, node_traces
from inferplan.rehearsal.cluster.record import cluster_directory


@pytest.mark.parametrize("unified", [False, True])
def test_a_deleted_cluster_leaves_no_control_group_and_no_sockets(monkeypatch, tmp_path, unified):
    mounted, runtime = tmp_path / "cgroup", tmp_path / "run"
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(node_traces, "CONTROL_GROUPS", mounted)
    monkeypatch.setattr(node_traces, "_RUNTIME", runtime)
    hierarchies = [mounted] if unified else [mounted / "cpu", mounted / "memory"]
    for each in hierarchies:
        each.mkdir(parents=True)
    if unified:
        (mounted / "cgroup.controllers").touch()
    kept = cluster_directory("kept")
    for directory in (cluster_directory("gone"), kept):
        directory.mkdir(parents=True)
        for group in node_traces.control_groups(directory):
            (group / "kubepods" / "burstable" / "pod1").mkdir(parents=True)
        node_traces.runtime_folder(directory).mkdir(parents=True)
        (node_traces.runtime_folder(directory) / "containerd.sock").touch()
    assert delete("gone")
    name = node_traces.name_on_machine(kept)
    assert [each.name for each in runtime.iterdir()] == [name]
    assert len(node_traces.control_groups(kept)) == len(hierarchies)
    for each in hierarchies:
        assert [group.name for group in each.glob("inferplan-*")] == [name]
        assert (each / name / "kubepods" / "burstable" / "pod1").is_dir()
