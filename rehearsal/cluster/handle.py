"""The live cluster as its users see it: where it is, how to reach it, and that it is ours.

Holds no process and no connection, so it is cheap to make, copy and compare. Starting and removing is `lifecycle`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["created", "reused", "repaired", "recreated"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A simulated cluster that answers.

    Attributes:
        name: as given to `start`.
        directory: everything the cluster keeps on disk; removed by `delete`.
        server: `https://127.0.0.1:PORT`.
        kubeconfig: a file (mode 0600) whose only context is `context`; certificates are inside it.
        context: the kubeconfig context's name, `inferplan-<name>`.
        uid: uid of the namespace kube-system, the cluster's identity.
        version: the API server's version, such as `v1.34.4`.
        outcome: what `start` had to do: `created`, `reused`, `repaired` or `recreated`.
        repairs: one sentence for each thing that was mended, empty when nothing was.
    """

    name: str
    directory: Path
    server: str
    kubeconfig: Path
    context: str
    uid: str
    version: str
    outcome: Outcome = field(compare=False, default="reused")
    repairs: tuple[str, ...] = field(compare=False, default=())

    @property
    def ca_file(self) -> Path:
        """PEM file of the authority that signed the server's certificate."""
        return self.directory / "pki" / "ca.crt"

    @property
    def client_cert_file(self) -> Path:
        """PEM file of the administrator's client certificate (group system:masters)."""
        return self.directory / "pki" / "admin.crt"

    @property
    def client_key_file(self) -> Path:
        """PEM file of the administrator's client key, mode 0600."""
        return self.directory / "pki" / "admin.key"

    def get(self, path: str, timeout: float = 60.0) -> Any:
        """The decoded JSON answer to GET `path` (such as `/api/v1/nodes`).

        Raises:
            ClusterError: the server does not answer within `timeout` seconds, or answers with an error.
        """
        from rehearsal.cluster.client import Client

        return Client(self.directory / "pki").get(self.server, path, timeout)
