"""The simulated cluster: a real Kubernetes control plane on this computer, with fake nodes.

    cluster = start("local", progress)   # reuses, repairs or creates
    cluster.server, cluster.kubeconfig   # https://127.0.0.1:PORT, a file that only its owner can
    read
    cluster.api()                        # a client of the API server
    delete("local")

`require_owned` rejects clusters that the rehearsal did not start.
"""

from inferplan.rehearsal.cluster.lifecycle import clusters, delete, start, status
from inferplan.rehearsal.cluster.record import Cluster, Outcome, require_owned

__all__ = ["Cluster", "Outcome", "clusters", "delete", "require_owned", "start", "status"]
