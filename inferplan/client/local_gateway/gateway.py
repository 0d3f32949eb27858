"""The local gateway of a rehearsal: the stack's gateway and stubs of its models on 127.0.0.1, in
step with the simulated cluster.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from inferplan.client.local_gateway import nginx, stubs
from inferplan.client.local_gateway.profile import profiles_of
from inferplan.client.local_gateway.real_server import arguments_of, real_server
from inferplan.client.local_gateway.real_server import program as real_program
from inferplan.components.gateway.exposure_spec import GATEWAY
from inferplan.components.handles import Endpoint
from inferplan.errors import RehearsalError
from inferplan.rehearsal.cluster import Cluster, processes
from inferplan.rehearsal.cluster.components import SERVER
from inferplan.rehearsal.cluster.record import cluster_directory
from inferplan.rehearsal.node import node
from inferplan.rehearsal.serving.programs import answering_ports, bring_up, choose_ports, folder_of
from inferplan.rehearsal.wait.object_events import Event, Listener, Ready
from inferplan.stackfile.imported_keys import SECTION, plain_keys
from inferplan.stackfile.reader import PROJECT, SECRET_KEYS
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.contract import Contract, contract_of
from inferplan.workspace.workspace import Workspace


class LocalGateway:
    """The processes that answer for a stack. `problem` says why nothing can, with the remedy; it is
    "" if all is there.
    """

    def __init__(
        self, workspace: Workspace, *, profile: Sequence[str] = (), real: Sequence[str] = ()
    ) -> None:
        self._workspace, self._settings = workspace, workspace.settings
        self._profiles = profiles_of(profile, self._settings.models)
        # Imports Pulumi's SDK, which status and the shell's completion do without.
        from inferplan.infra.models import endpoints_of

        self._endpoints = endpoints_of(self._settings)
        self._real = real_server(workspace, real)
        self.problem = nginx.problem_of(workspace)

    def notes(self) -> Iterator[str]:
        """Say which models answer, and which do not."""
        if self.problem:
            yield f"no model of {self._workspace.stack} answers in this rehearsal: {self.problem}"
            return
        shown = {str(each) for each in self._profiles.values()}
        profile = (
            shown.pop()
            if len(shown) == 1
            else "; ".join(f"{name}: {each}" for name, each in sorted(self._profiles.items()))
        )
        yield f"stubs answer in place of the models, and no model runs ({profile})"
        yield from nginx.limits(self._endpoints)
        if self._real is not None:
            _, dropped = arguments_of(self._real, self._workspace.record())
            without = f", without {', '.join(dropped)}, which it lacks" if dropped else ""
            yield (
                f"{self._real.program} answers for {self._real.model} with the arguments of the"
                f" plan{without}; it does not follow replicas"
            )

    def _is_real(self, endpoint: Endpoint) -> bool:
        return self._real is not None and endpoint.model == self._real.model

    def bring_up(self, cluster: Cluster, *, updating: bool = False) -> None:
        """Start, change or repair what answers; a real server, which loads for minutes, not while
        `updating`. Raises RehearsalError.
        """
        if self.problem:
            return
        stubbed = [each for each in self._endpoints if not self._is_real(each)]
        ports = choose_ports(cluster, {**nginx.PORTS, **stubs.owners(stubbed), SERVER: SERVER})
        values = self._workspace.secrets.values
        seeds = [values[f"{PROJECT}:{key}"] for key in SECRET_KEYS if f"{PROJECT}:{key}" in values]
        local = [stubs.on_loopback(each, ports) for each in stubbed]
        real = [_on_port(each, ports[SERVER]) for each in self._endpoints if self._is_real(each)]
        imported = plain_keys(
            json.loads(self._workspace.engine_input()["config"].get(f"{PROJECT}:{SECTION}", "{}"))
        )
        proxy = nginx.program(
            self._settings, [*local, *real], seeds, imported, ports, folder_of(cluster.directory)
        )
        programs = [stubs.program(self._settings, local, cluster, ports, self._profiles, seeds)]
        if self._real is not None and not updating:
            programs.append(
                real_program(
                    self._real,
                    self._workspace.record(),
                    cluster,
                    port=ports[SERVER],
                    seed=seeds[-1],
                )
            )
        bring_up(cluster, [*programs, proxy], keep=[SERVER] if updating else ())

    def following(self, cluster: Cluster, listener: Listener) -> Listener:
        """`listener`, which also changes the local gateway as soon as that of the cluster has
        changed.
        """

        def listen(event: Event) -> None:
            listener(event)
            if isinstance(event, Ready) and (event.target.kind, event.target.name) == (
                "Deployment",
                GATEWAY,
            ):
                try:
                    self.bring_up(cluster, updating=True)
                except RehearsalError:
                    # It is brought up again, and reported, when the update has ended.
                    return

        return listen


def endpoints_on(settings: StackSettings, port: int) -> list[Endpoint]:
    """The endpoints of the stack at one port of the loopback."""
    from inferplan.infra.models import endpoints_of

    return [_on_port(each, port) for each in endpoints_of(settings)]


def _on_port(endpoint: Endpoint, port: int) -> Endpoint:
    return replace(
        endpoint,
        host="127.0.0.1",
        protocols=tuple(replace(each, port=port) for each in endpoint.protocols),
    )


def local_contract(workspace: Workspace) -> Contract | None:
    """The endpoints of the stack at its local gateway; None if that does not answer."""
    spec = workspace.settings.gateway
    if spec is None:
        return None
    contract = contract_of(workspace.settings)
    if (port := node.port_of(workspace.cluster)) is not None:
        url = f"http://127.0.0.1:{port}{nginx.path_prefix(spec)}"
        return replace(contract, gateway=url, grpc=None, local=True)
    ports = answering_ports(workspace.cluster)
    if not ports:
        return None
    grpc = None if contract.grpc is None else f"127.0.0.1:{ports[nginx.GRPC]}"
    return replace(
        contract,
        gateway=f"http://127.0.0.1:{ports[nginx.HTTP]}{nginx.path_prefix(spec)}",
        grpc=grpc,
        local=True,
    )


def local_servers(name: str) -> Callable[[str], str]:
    """Return what answers here for a model whose pods are on fake nodes of the cluster `name`: `stub`,
    `real`, or `fake` for nothing.
    """
    if not answering_ports(name):
        return lambda _model: "fake"
    stubbed = {each["name"] for each in stubs.stubbed_models(cluster_directory(name))}
    runs = SERVER in processes.running(cluster_directory(name))
    return lambda model: "stub" if model in stubbed else "real" if runs else "fake"


def reachable_contract(workspace: Workspace) -> Contract:
    """The endpoints of the stack: at the local gateway if its cluster is simulated and that
    answers, else at its own gateway.
    """
    return (local_contract(workspace) if workspace.simulated else None) or contract_of(
        workspace.settings
    )
