"""What a stack exports about its endpoints, read back: the one record that status, call and snippet know models by.

The program itself writes it, in memory and as of the stack file; no cluster is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.gateway.routes import public_path
from components.handles import Endpoint

if TYPE_CHECKING:
    from components.handles import ProtocolKind
    from operations.workspace import Workspace
    from rehearsal.engine.wire.recording import Recording


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The exported endpoints by model, the gateway's base URL and its address for gRPC; None where there is none."""

    namespace: str
    gateway: str | None
    grpc: str | None
    endpoints: Mapping[str, Endpoint]

    def address(self, model: str) -> str:
        """Where clients call `model` first of all: at the gateway, or inside the cluster where there is no gateway."""
        endpoint = self.endpoints[model]
        first = endpoint.protocols[0]
        if self.gateway is None:
            return f"http://{endpoint.host}.{self.namespace}.svc:{first.port}{first.path}"
        return self.url(model, first.kind)

    def url(self, model: str, kind: ProtocolKind) -> str:
        """Where calls of protocol `kind` to `model` start, at the gateway. Raises ValueError where there is no gateway."""
        if self.gateway is None:
            raise ValueError("this stack has no gateway, so nothing outside its namespace may call")
        return self.gateway + public_path(model, kind)


def contract(workspace: Workspace) -> Contract:
    """What the stack of `workspace` exports. Raises ProgramFailed with the program's own words."""
    return contract_of(declared(workspace), workspace.settings.namespace)


def declared(workspace: Workspace) -> Recording:
    """What the program of `workspace` registers. Raises ProgramFailed with the program's own words."""
    return workspace.record()


def contract_of(recording: Recording, namespace: str) -> Contract:
    """What `recording`, of a stack in `namespace`, exports."""
    outputs = recording.outputs
    return Contract(
        # The namespace's name is an output of an object that no preview has made yet.
        namespace=namespace,
        gateway=outputs.get("gateway"),
        grpc=outputs.get("gatewayGrpc"),
        endpoints={name: endpoint_of(written) for name, written in outputs["endpoints"].items()},
    )


def endpoint_of(written: Mapping[str, Any]) -> Endpoint:
    """The endpoint that an exported record stands for."""
    from pydantic import TypeAdapter

    return TypeAdapter(Endpoint).validate_python(written)
