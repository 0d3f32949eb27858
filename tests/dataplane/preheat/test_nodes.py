"""One pod for each node of a pool: which of them may say that its node is done."""

from __future__ import annotations

import pytest

from inferplan.components.handles import NodeTarget
from inferplan.components.sources import VolumeClaim
from inferplan.hardware.machines import Capacity

from .rig import refused, verified

L40S = NodeTarget(
    pool="l40s",
    accelerator=None,
    node_selector={},
    taints=(),
    capacity=Capacity(cpu_millicores=48_000, memory_bytes=2**38),
    nodes=2,
)


@pytest.fixture
def pod(job, tmp_path):
    """Makes the container of one pod of a Job for disks of nodes, on a node's disk of its own."""

    def make(index, node="a", **changes):
        disk = tmp_path / f"node-{node}"
        disk.mkdir(exist_ok=True)
        made = job(**{"target": disk, "claim": VolumeClaim(name="nvme", nodes=L40S), **changes})
        # What Kubernetes adds to the pods of an Indexed Job.
        made.env |= {"JOB_COMPLETION_INDEX": str(index), "NODE_NAME": node}
        return made

    return make


def test_each_node_gets_a_copy_and_a_pod_that_lands_on_a_filled_one_says_that_another_is_empty(
    pod, small
):
    first = pod(0)
    verified(first.run(), first, small)
    again = pod(1, repair=lambda _job: pod(1, node="c")).run()
    assert again.code == 4, again.output
    assert "pod 0 of this Job has filled this node already" in again.output
    assert "the node that pod 1 was meant for has no copy" in again.output
    assert "kubectl get nodes" in again.output
    other = pod(1, node="b")
    verified(other.run(), other, small)


@pytest.mark.full
def test_a_pod_that_is_tried_again_on_its_node_and_the_next_job_find_everything_there(pod, small):
    made = pod(0)
    verified(made.run(), made, small)
    assert ", 0 B moved" in pod(0).run().output
    following = pod(1)
    following.env["JOB_NAME"] = "tiny-preheat-0b"
    assert ", 0 B moved" in following.run().output


@pytest.mark.full
def test_a_disk_that_is_too_small_is_refused_before_a_byte_moves(pod, tmp_path, model):
    import subprocess

    small = tmp_path / "node-c"
    small.mkdir()
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no file system of a fixed size can be mounted here")
    try:
        made = pod(0, node="c")
        assert sum(map(len, model.values())) > 8 << 20
        disk = f"the disk of node c ({small}: tmpfs tmpfs) is full"
        refused(made.run(), made, 4, disk, "free some", "nodes with a larger disk")
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(small)], check=True)
