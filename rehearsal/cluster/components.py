"""The five programs of a cluster: their arguments and their health endpoints.

They listen on 127.0.0.1 only. etcd listens on a socket file in the cluster's directory, because it does not authenticate clients. The
API server runs its default admission plugins (Pod Security, quota, limit ranges, priority, service accounts).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rehearsal.cluster.pki import PROXY_NAME

ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK = "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"
COMPONENTS = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK)
"""In the order in which they start; they stop in reverse order."""

OPERATORS = ("karpenter",)
"""Programs that run in a cluster while a command needs them; they stop before the components."""

LISTENING = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK)
"""The components that need a TCP port."""

_ETCD_SOCKET = "unix://etcd.sock:0"  # relative to the working directory: socket paths are limited to 108 characters
_PEER_SOCKET = "unix://peer.sock:0"
_FAKE_NODE = "kwok.x-k8s.io/node=fake"
_SCALER_SYNC = "2s"  # 15 s by default; horizontal pod autoscalers in a rehearsal decide sooner
_NODE_GRACE = "1h"  # nodes must not be lost after a laptop was suspended


@dataclass(frozen=True, slots=True)
class Layout:
    """The files and addresses of one cluster.

    Attributes:
        directory: the cluster's directory, absolute; the programs' working directory.
        ports: TCP port by component in `LISTENING`.
    """

    directory: Path
    ports: dict[str, int]

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; the components use it too."""
        return self.directory / "kubeconfig"

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports[API_SERVER]}"

    def log(self, component: str) -> Path:
        """The log file of a component."""
        return self.directory / "logs" / f"{component}.log"


def arguments(component: str, layout: Layout) -> list[str]:
    """The command line of a component, without the program itself."""
    match component:
        case "etcd":
            return _etcd(layout)
        case "kube-apiserver":
            return _api_server(layout)
        case "kube-controller-manager":
            return _controller_manager(layout)
        case "kube-scheduler":
            return [f"--config={layout.directory / 'scheduler.json'}", *_serving(component, layout)]
        case "kwok":
            return [
                f"--config={layout.directory / 'stages.yaml'}",
                f"--kubeconfig={layout.kubeconfig}",
                f"--manage-nodes-with-annotation-selector={_FAKE_NODE}",
                f"--server-address=127.0.0.1:{layout.ports[KWOK]}",
                "--node-ip=127.0.0.1",
                "--node-lease-duration-seconds=40",
            ]
        case _:
            raise ValueError(component)


def health_url(component: str, layout: Layout) -> str | None:
    """The health endpoint of a component; None for etcd, which the API server's /readyz includes."""
    match component:
        case "kube-apiserver":
            return f"{layout.server}/readyz"
        case "kube-controller-manager" | "kube-scheduler":
            return f"https://127.0.0.1:{layout.ports[component]}/healthz"
        case "kwok":
            return f"http://127.0.0.1:{layout.ports[component]}/healthz"
        case _:
            return None


def _etcd(layout: Layout) -> list[str]:
    return [
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={_ETCD_SOCKET}",
        f"--advertise-client-urls={_ETCD_SOCKET}",
        f"--listen-peer-urls={_PEER_SOCKET}",
        f"--initial-advertise-peer-urls={_PEER_SOCKET}",
        f"--initial-cluster=default={_PEER_SOCKET}",
        "--unsafe-no-fsync",  # a cluster that is lost in a power cut is created again; syncing would cost seconds at each start
        "--auto-compaction-retention=1",
        "--log-level=warn",
    ]


def _serving(component: str, layout: Layout) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports[component]}",
        f"--tls-cert-file={layout.pki / 'server.crt'}",
        f"--tls-private-key-file={layout.pki / 'server.key'}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez",
    ]


def _api_server(layout: Layout) -> list[str]:
    pki = layout.pki
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports[API_SERVER]}",
        f"--etcd-servers={_ETCD_SOCKET}",
        f"--tls-cert-file={pki / 'server.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        # API servers of operators, such as KEDA's for external metrics, are aggregated.
        f"--requestheader-client-ca-file={pki / 'proxy-ca.crt'}",
        f"--requestheader-allowed-names={PROXY_NAME}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / f'{PROXY_NAME}.crt'}",
        f"--proxy-client-key-file={pki / f'{PROXY_NAME}.key'}",
        f"--service-account-key-file={pki / 'tokens.key'}",
        f"--service-account-signing-key-file={pki / 'tokens.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--authorization-mode=RBAC",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",  # no container runs here, and the server rejects loopback endpoints
        "--profiling=false",
    ]


def _controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig}",
        *_serving(CONTROLLER_MANAGER, layout),
        f"--service-account-private-key-file={layout.pki / 'tokens.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        f"--node-monitor-grace-period={_NODE_GRACE}",
        "--node-startup-grace-period=1h",
        "--pvclaimbinder-sync-period=500ms",  # a claim that names its volume is bound at the next resync, after 12 s by default
        f"--horizontal-pod-autoscaler-sync-period={_SCALER_SYNC}",
        "--profiling=false",
    ]


def scheduler_configuration(layout: Layout) -> bytes:
    """The scheduler's configuration: one replica, no request limit, and a retry of pending pods within two seconds."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(layout.kubeconfig), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
        "enableProfiling": False,
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def stage_configuration(stages: tuple[Path, ...]) -> bytes:
    """kwok's configuration: the stages of fake nodes and their pods."""
    return b"\n---\n".join(stage.read_bytes().strip() for stage in stages) + b"\n"
