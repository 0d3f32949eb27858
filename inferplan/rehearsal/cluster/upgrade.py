"""Upgrade the control plane of a simulated cluster to another version of Kubernetes; its data stays in etcd, as in a real upgrade."""

from dataclasses import replace

from inferplan.rehearsal.cluster import processes
from inferplan.rehearsal.cluster.components import Layout
from inferplan.rehearsal.cluster.record import Cluster
from inferplan.rehearsal.cluster.startup import Startup
from inferplan.rehearsal.progress import Progress
from inferplan.rehearsal.toolchain.build import ensure, ensure_source
from inferplan.rehearsal.toolchain.pins import Source


def upgrade(cluster: Cluster, target: Source, progress: Progress) -> Cluster:
    """The cluster with the control plane `target`, built if missing, on the same ports. Raises RehearsalError.

    Its record keeps the old version: the next `start` of the cluster repairs it with the programs that this checkout pins.
    """
    directory = ensure_source(target, progress)
    programs = ensure(progress).programs | {name: directory / name for name, _ in target.programs}
    # A new kwok would wait for the leases of the nodes to end; the old one reconnects.
    components = tuple(name for name, _ in target.programs)
    processes.end(cluster.directory, components)
    Startup(Layout(cluster.directory, cluster.ports), programs, progress).bring_up(components)
    return replace(cluster, version=target.version)
