"""The five programs of a cluster, which listen on 127.0.0.1 or a socket: command lines, health
endpoints, and the cluster's files.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from inferplan.kube.api import Api
from inferplan.tables import table

_COMPONENTS, OPERATORS = (
    table("rehearsal/cluster/components.toml"),
    table("rehearsal/cluster/operators.toml"),
)
_PROGRAMS = {
    program: row for each in OPERATORS.values() for program, row in each["programs"].items()
}
_TABLE = _COMPONENTS | _PROGRAMS

ETCD, API_SERVER = "etcd", "kube-apiserver"
OPERATOR_PROGRAMS = tuple(_PROGRAMS)
"""Programs that run in a cluster while a command needs them; they stop before the components."""

STUBS, PROXY, PROXY_WORKER, SERVER = "stubs", "proxy", "proxy-worker", "server"
SERVING = (PROXY_WORKER, PROXY, STUBS, SERVER)
"""Processes that answer requests to the models of a cluster (`rehearsal/serving`); they stop before
the components.
"""

NODE = "node"
"""The supervisor of a real node's programs (`rehearsal/node`); it stops before the components."""

COMPONENTS = tuple(_COMPONENTS)
"""In the order in which they start; they stop in reverse order."""

LISTENING = tuple(name for name in COMPONENTS if name != ETCD)
"""The components that need a TCP port."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files in the `directory` of one cluster, and its TCP `ports` by component in `LISTENING`."""

    directory: Path
    ports: dict[str, int]

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def context(self) -> str:
        return f"inferplan-{self.name}"

    @property
    def pki(self) -> Path:
        """The directory of keys and certificates, among them `ca.crt`; the administrator's token is
        in `admin.csv`.
        """
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig (mode 0600, with the token); the components use it too."""
        return self.directory / "kubeconfig"

    @property
    def server(self) -> str:
        """The API server's address, `https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self.ports[API_SERVER]}"

    @property
    def volumes(self) -> Path:
        """The directories of volumes, which exist with a real node."""
        return self.directory / "volumes"

    def log(self, component: str) -> Path:
        return self.directory / "logs" / f"{component}.log"

    def api(self) -> Api:
        return Api(self.server, self.pki)


def arguments(component: str, layout: Layout) -> list[str]:
    values = {
        "directory": layout.directory,
        "port": layout.ports.get(component),
        "ports": layout.ports,
    }
    return [each.format_map(values) for each in _TABLE[component]["arguments"]]


def health_url(component: str, layout: Layout) -> str | None:
    """The health endpoint of a component; None for etcd, which the API server's /readyz includes."""
    url = _TABLE[component].get("health")
    return url and url.format(port=layout.ports[component])


def scheduler_configuration(layout: Layout) -> bytes:
    """The scheduler's configuration: one replica, no request limit, and a retry of pending pods
    within two seconds.
    """
    settings = table("rehearsal/cluster/commands.toml")["scheduler"]
    connection = {"kubeconfig": str(layout.kubeconfig), **settings["clientConnection"]}
    document = {**settings, "clientConnection": connection}
    return json.dumps(document, indent=2).encode() + b"\n"


def stage_configuration(stages: tuple[Path, ...]) -> bytes:
    """kwok's configuration: the stages of fake nodes and their pods. Its handlers for debugging
    would answer every user of this machine.
    """
    options = table("rehearsal/cluster/commands.toml")["kwok"]
    documents = [json.dumps(options).encode(), *(stage.read_bytes().strip() for stage in stages)]
    return b"\n---\n".join(documents) + b"\n"
