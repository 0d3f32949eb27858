"""KEDA's operator and its API server for external metrics next to a simulated cluster, built from
KEDA's pinned module.

Both get certificates of the cluster's authority; in a cluster the operator makes them. A Service
that is an external name brings the API server to 127.0.0.1. KEDA's admission webhooks do not run.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from inferplan.progress import silent
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.cluster.pki import write_service_certificate
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.pins import KEDA
from tests.rehearsal.operator_programs import (
    await_ready,
    free_ports,
    install,
    local_service,
    running,
)

SPACE, SERVICE, OPERATOR = "keda", "keda-metrics-apiserver", "keda-operator"


@contextlib.contextmanager
def keda(cluster: Cluster, directory: Path) -> Iterator[tuple[int, int]]:
    """Runs both programs on `cluster` until the block ends; they log into `directory`. Yields their
    process ids. Raises ToolchainError.
    """
    programs = ensure_source(KEDA, silent)
    health, metrics, external, scrape = free_ports(4)
    certificates = directory / "certificates"
    names = tuple(
        f"{name}{suffix}" for name in (OPERATOR, SERVICE) for suffix in ("", f".{SPACE}.svc")
    )
    write_service_certificate(certificates, cluster.pki, names)
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "POD_NAMESPACE": SPACE,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": SPACE,
        "WATCH_NAMESPACE": "",
    }
    operator = [
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--metrics-service-bind-address=127.0.0.1:{metrics}",
        "--enable-prometheus-metrics=false",
        f"--cert-dir={certificates}",
    ]
    adapter = [
        "--bind-address=127.0.0.1",
        f"--secure-port={external}",
        f"--port={scrape}",
        f"--metrics-service-address=localhost:{metrics}",
        f"--cert-dir={certificates}",
        f"--client-ca-file={cluster.pki / 'ca.crt'}",
        f"--tls-cert-file={certificates / 'tls.crt'}",
        f"--tls-private-key-file={certificates / 'tls.key'}",
        f"--lister-kubeconfig={cluster.kubeconfig}",
        f"--authentication-kubeconfig={cluster.kubeconfig}",
        f"--authorization-kubeconfig={cluster.kubeconfig}",
    ]
    with contextlib.closing(cluster.api()) as api:
        for document in local_service(SPACE, SERVICE):
            install(api, document)
        for group in ("keda.sh", "eventing.keda.sh"):
            installer(cluster, silent)(group)
        log = directory / "keda-operator.log"
        with (
            running([str(programs / OPERATOR), *operator], log, environment) as process,
            running(
                [str(programs / "keda-adapter"), *adapter],
                directory / "keda-adapter.log",
                environment,
            ) as server,
        ):
            await_ready(process, f"http://127.0.0.1:{health}/readyz", log)
            with _aggregated(api, programs / "service.yaml", external, (certificates / "ca.crt")):
                yield process.pid, server.pid


@contextlib.contextmanager
def _aggregated(api: Any, manifest: Path, port: int, authority: Path) -> Iterator[None]:
    """The external metrics served by the API server; without their server, namespaces could not be
    deleted.
    """
    document = yaml.safe_load(manifest.read_text())
    document["spec"]["service"]["port"] = port
    document["spec"]["caBundle"] = base64.b64encode(authority.read_bytes()).decode()
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    install(api, document)
    try:
        watch = api.watch(
            path,
            {
                "fieldSelector": f"metadata.name={document['metadata']['name']}",
                "timeoutSeconds": "60",
            },
        )
        with contextlib.closing(watch):
            states = (
                live.get("status", {}).get("conditions", [])
                for kind, live in watch
                if kind != "BOOKMARK"
            )
            available = any(
                each["status"] == "True"
                for state in states
                for each in state
                if each["type"] == "Available"
            )
        if not available:
            raise RuntimeError(
                "external.metrics.k8s.io is not available after 60 s: see the log of keda-adapter"
            )
        yield
    finally:
        api.request("DELETE", f"{path}/{document['metadata']['name']}")
