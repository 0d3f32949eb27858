"""Two Gaudi servers without labels, as fake nodes of a simulated cluster, and a kubeconfig with a
context for it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.nodes.pool import NodeLocation
from inferplan.components.pools import ExistingPool
from inferplan.kube.names import POOL_LABEL
from inferplan.rehearsal.cluster import Cluster
from tests.patience import PATIENCE_SECONDS
from tests.scenarios.play import client


@contextmanager
def bare_rack(cluster: Cluster, folder: Path, nodes: tuple[str, ...]) -> Iterator[Path]:
    """A kubeconfig in `folder` with the context `rack`, while `cluster` has `nodes`."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["contexts"][0]["name"] = config["current-context"] = "rack"
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    pool = ExistingPool(provider="existing", accelerator="gaudi-2", nodes=len(nodes))
    with client(cluster) as api:
        for name, node in zip(
            nodes,
            fake_nodes("gaudi2", pool, count=len(nodes), location=NodeLocation()),
            strict=True,
        ):
            metadata: dict[str, Any] = node["metadata"]
            labels = {key: value for key, value in metadata["labels"].items() if key != POOL_LABEL}
            api.apply(
                f"/api/v1/nodes/{name}",
                {**node, "metadata": {**metadata, "name": name, "labels": labels}},
                manager="test",
            )
        try:
            ready = [
                "kubectl",
                "--kubeconfig",
                str(path),
                "wait",
                "--for=condition=Ready",
                *(f"node/{name}" for name in nodes),
            ]
            subprocess.run(
                [*ready, f"--timeout={PATIENCE_SECONDS}s"], check=True, capture_output=True
            )
            yield path
        finally:
            for name in nodes:
                api.request("DELETE", f"/api/v1/nodes/{name}")
