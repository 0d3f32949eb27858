"""Kueue's own manager as a process next to a simulated cluster, built and set up from its pinned
module.

It makes its own certificates, as it does in a cluster; a Service that is an external name brings
the API server to 127.0.0.1. Beside its definitions come those of KubeRay and LeaderWorkerSet that
it was made for, since it compares what it reads of them field by field. It runs neither of the two.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferplan.kube.api import Api
from inferplan.progress import silent
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.crds import CrdSource, crd_sources, source_files
from inferplan.rehearsal.toolchain.pins import Source
from tests.rehearsal.operator_programs import (
    await_ready,
    free_ports,
    install,
    local_service,
    running,
)

SPACE = "kueue-system"
SERVICE, SECRET = "kueue-webhook-service", "kueue-webhook-server-cert"
FRAMEWORKS = (
    "batch/job",
    "pod",
    "deployment",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "ray.io/rayservice",
)
"""The integrations that the labels of a stack need; docs/queues.md names the same."""
_CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")


KUEUE = Source(
    "kueue",
    "sigs.k8s.io/kueue",
    (("kueue", "sigs.k8s.io/kueue/cmd/kueue"),),
    data=(("webhooks.yaml", "config/components/webhook/manifests.yaml"),),
    home=Path(__file__).parent,  # only tests need it
)
# The versions that Kueue's own go.mod requires.
_MANAGED = (
    CrdSource(
        "kuberay",
        ("ray.io",),
        "github.com/ray-project/kuberay/ray-operator",
        "v1.6.2",
        "h1:XUckRswLMyk71D00L62d2Vanh0fVkNqu56+IF/rr+O0=",
        ("config/crd/bases/ray.io_rayclusters.yaml", "config/crd/bases/ray.io_rayservices.yaml"),
    ),
    CrdSource(
        "lws",
        ("leaderworkerset.x-k8s.io",),
        "sigs.k8s.io/lws",
        "v0.9.0",
        "h1:DcJCgxjjoGOx//QHZkeKpyiblxYq70aCRZNYSfykWyI=",
        ("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Where the `program` is, the manifest of its `webhooks`, and the `definitions` of what it
    manages.
    """

    program: Path
    webhooks: Path
    definitions: tuple[Path, ...]


def parts() -> Parts:
    """Everything of the pinned modules, built and fetched where the cache lacks it. Raises
    ToolchainError.
    """
    own = (source for source in crd_sources() if source.name == "kueue")
    definitions = tuple(
        path for source in (*own, *_MANAGED) for path in source_files(source, silent)
    )
    place = ensure_source(KUEUE, silent)
    return Parts(program=place / "kueue", webhooks=place / "webhooks.yaml", definitions=definitions)


@contextlib.contextmanager
def kueue(cluster: Cluster, parts: Parts, directory: Path) -> Iterator[None]:
    """Runs the manager on `cluster` until the block ends; it logs into `directory`."""
    port, health = free_ports(2)
    certificates = directory / "certificates"
    certificates.mkdir(parents=True)
    settings = directory / "settings.yaml"
    settings.write_text(yaml.safe_dump(_settings(port, health, certificates)))
    log = directory / "kueue.log"
    api = cluster.api()
    try:
        _install(api, parts, port)
        command = [
            str(parts.program),
            f"--config={settings}",
            f"--kubeconfig={cluster.kubeconfig}",
            "--zap-log-level=2",
        ]
        with running(command, log) as process:
            _hand_over(api, certificates)
            await_ready(process, f"http://127.0.0.1:{health}/readyz", log)
            yield
    finally:
        api.close()


def _settings(port: int, health: int, certificates: Path) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": SPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": SERVICE,
            "webhookSecretName": SECRET,
        },
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": list(FRAMEWORKS)},
        # An API server of its own, for listing what waits; it would listen beyond 127.0.0.1.
        "featureGates": {"VisibilityOnDemand": False},
    }


def _install(api: Api, parts: Parts, port: int) -> None:
    for document in local_service(SPACE, SERVICE):
        install(api, document)
    install(
        api,
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": SPACE, "name": SECRET}},
    )
    for path in parts.definitions:
        install(api, json.loads(path.read_bytes()))
    service = {"namespace": SPACE, "name": SERVICE, "port": port}
    for plural in _CONVERTED:
        conversion = {
            "clientConfig": {"service": {**service, "path": "/convert"}},
            "conversionReviewVersions": ["v1"],
        }
        spec = {"conversion": {"strategy": "Webhook", "webhook": conversion}}
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kueue.x-k8s.io"
        api.request("PATCH", path, {"spec": spec}, media="application/merge-patch+json")
    for document in yaml.safe_load_all(parts.webhooks.read_text()):
        if document is not None:
            install(api, _webhooks(document, service))


def _webhooks(document: dict[str, Any], service: dict[str, Any]) -> dict[str, Any]:
    """What Kueue's kustomization makes of its manifest: other names, and no webhook for the
    namespaces that Kueue itself lives on.
    """
    others = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", SPACE],
            }
        ]
    }
    for each in document["webhooks"]:
        called = each["clientConfig"]["service"]
        called |= service
        if not any(rule["apiGroups"] == ["kueue.x-k8s.io"] for rule in each["rules"]):
            each["namespaceSelector"] = others
    document["metadata"]["name"] = f"kueue-{document['metadata']['name']}"
    return document


def _hand_over(api: Api, directory: Path) -> None:
    """Write the certificates that Kueue put into its Secret where its kubelet would mount them."""
    watch = api.watch(
        f"/api/v1/namespaces/{SPACE}/secrets", {"fieldSelector": f"metadata.name={SECRET}"}
    )
    try:
        made = next(
            live["data"]
            for kind, live in watch
            if kind in ("ADDED", "MODIFIED") and (live.get("data") or {}).get("tls.crt")
        )
    finally:
        watch.close()
    for name, content in made.items():
        (directory / name).write_bytes(base64.b64decode(content))
