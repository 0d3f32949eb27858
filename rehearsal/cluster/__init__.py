"""The simulated cluster: a real Kubernetes control plane on this machine, with pretend nodes.

    cluster = start("local", progress)   # idempotent; reuses, repairs or creates
    cluster.server, cluster.kubeconfig   # https://127.0.0.1:PORT, a file readable by its owner only
    cluster.get("/api/v1/nodes")         # small requests without a client library
    delete("local")

It refuses to touch any cluster or process that it did not start: see `require_owned`.
"""

from __future__ import annotations

from rehearsal.cluster.handle import Cluster, Outcome
from rehearsal.cluster.lifecycle import ClusterStatus, clusters, delete, start, status, stop
from rehearsal.cluster.ownership import owns, require_owned

__all__ = ["Cluster", "ClusterStatus", "Outcome", "clusters", "delete", "owns", "require_owned", "start", "status", "stop"]
