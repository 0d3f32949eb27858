"""Operators as programs next to a simulated cluster (`operators.toml`), with their webhooks and
definitions.
"""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from inferplan.documents.files import write_atomically
from inferplan.progress import Progress, silent
from inferplan.rehearsal.cluster import processes
from inferplan.rehearsal.cluster.components import OPERATORS, Layout
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.cluster.pki import write_service_certificate
from inferplan.rehearsal.cluster.record import Cluster
from inferplan.rehearsal.cluster.startup import Startup, free_ports
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.pins import OPTIONAL

_MANAGER = "inferplan-definitions"


def versions() -> dict[str, str]:
    """The names of the operators that run in audits, by the ways to ask for their versions:
    `keda=2.21` and `keda=2.21.0`.
    """
    pinned = {
        name: OPTIONAL[name].version.removeprefix("v")
        for name, row in OPERATORS.items()
        if "kinds" in row
    }
    return {
        f"{name}={each}": name
        for name, version in pinned.items()
        for each in (version.rpartition(".")[0], version)
    }


@contextlib.contextmanager
def operator(cluster: Cluster, name: str, progress: Progress = silent) -> Iterator[None]:
    """Run the operator `name`, built first if needed, on `cluster` until the block ends. Raises
    RehearsalError.
    """
    row = OPERATORS[name]
    space, names = row["namespace"], tuple(row["programs"])
    folder = ensure_source(OPTIONAL[name], progress)
    layout = Layout(
        cluster.directory, cluster.ports | free_ports((*names, *(f"{each}-port" for each in names)))
    )
    processes.end(cluster.directory, names)  # of a command that was killed
    write_service_certificate(
        cluster.pki / name, cluster.pki, (*names, *(f"{each}.{space}.svc" for each in names))
    )
    for group in row["groups"]:
        installer(cluster, progress)(group)
    try:
        with contextlib.closing(cluster.api()) as api:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
            api.apply(f"/api/v1/namespaces/{space}", namespace, manager=_MANAGER, force=True)
            write_atomically(
                cluster.directory / f"{name}.json",
                json.dumps(row.get("configuration", {})).encode(),
            )
            # Manifests of strangers must not have requests signed with the credentials in this
            # user's home.
            own = {
                key: value.format(ports=layout.ports) for key, value in row["environment"].items()
            }
            environment = {
                "KUBECONFIG": str(cluster.kubeconfig),
                "HOME": str(cluster.directory),
                **own,
            }
            Startup(layout, {each: folder / each for each in names}, silent, environment).start(
                names, api, len(names)
            )
            for program, each in row["programs"].items():
                if "webhooks" in each:
                    document = _webhooks(
                        folder / each["webhooks"], layout.ports[f"{program}-port"], cluster.pki
                    )
                    path = api.resource(document["apiVersion"], document["kind"]).path(
                        "", document["metadata"]["name"]
                    )
                    api.apply(path, document, manager=_MANAGER, force=True)
        yield
    finally:
        processes.end(cluster.directory, names)


def _webhooks(file: Path, port: int, pki: Path) -> dict[str, Any]:
    """The configuration in `file`, whose server listens on `port` of this machine."""
    document: dict[str, Any] = yaml.safe_load(file.read_bytes())
    authority = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
    for each in document["webhooks"]:
        each["clientConfig"] = {
            "url": f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}",
            "caBundle": authority,
        }
    return document
