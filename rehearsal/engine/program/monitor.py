"""A resource monitor in process: takes the calls that the Pulumi SDK makes and keeps what a program registers.

It answers what an engine must answer and hands every resource to a `Realizer`, which says what the program gets
back. It refuses what the rehearsal cannot honour (remote components, method calls, transforms) by saying so, and a
URN that is registered twice, as the engine does.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import engine_pb2, resource_pb2

from kube.marks import UNKNOWN_TEXT
from rehearsal.engine.program import options as wire_options
from rehearsal.engine.program.errors import RegistrationRefused
from rehearsal.engine.providers.aws_stubs import document_texts
from rehearsal.engine.providers.kubernetes import with_name
from rehearsal.engine.wire.order import ordered
from rehearsal.engine.wire.recording import Diagnostic, Recording, Registration
from rehearsal.engine.wire.urns import PROVIDER_PREFIX, STACK_TYPE, make_urn, stack_urn
from rehearsal.engine.wire.values import UNKNOWN, from_wire, to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping

_FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
    resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACE_WITH,
    resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACEMENT_TRIGGER,
)
_SEVERITIES = {
    engine_pb2.DEBUG: "debug",
    engine_pb2.INFO: "info",
    engine_pb2.WARNING: "warning",
    engine_pb2.ERROR: "error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Realized:
    """What a program gets back for a registration.

    `outputs` None means the inputs as they came, with the fields of `metadata` that `unknown_metadata` names, if it is
    a plain map, known only after an update. `failed` makes every output unknown, and so lets the parts of the
    program that do not depend on this resource go on.
    """

    id: str = ""
    outputs: Mapping[str, Any] | None = None
    unknown_metadata: tuple[str, ...] = ()
    failed: bool = False


class Realizer(Protocol):
    """Turns registrations into something; called from several threads when applying."""

    def register(self, registration: Registration) -> Realized:
        """What to answer to a declared resource."""
        ...

    def read(self, registration: Registration) -> Realized:
        """What to answer to a resource that is looked up by its id."""
        ...

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer of the provider function `token`."""
        ...


@dataclass
class Monitor:
    """The monitor of one run of one program."""

    project: str
    stack: str
    realizer: Realizer
    registrations: list[Registration] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    component_outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    refused: RegistrationRefused | None = None
    _urns: dict[str, Realized] = field(default_factory=dict)
    _providers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def recording(self) -> Recording:
        """What was registered so far, in an order that does not depend on the order of arrival."""
        return Recording(
            project=self.project,
            stack=self.stack,
            registrations=ordered(self.registrations),
            outputs=self.outputs,
            component_outputs=self.component_outputs,
            diagnostics=tuple(self.diagnostics),
        )

    def _refuse(self, message: str, urn: str) -> RegistrationRefused:
        refused = RegistrationRefused(message, urn=urn)
        self.refused = self.refused or refused
        return refused

    def _provider(self, request: Any) -> Mapping[str, Any]:
        """The inputs of the explicit provider that `request` names, {} for the default one."""
        urn = request.provider.rpartition("::")[0]
        return self._providers.get(urn, {})

    def _claim(self, urn: str) -> None:
        with self._lock:
            if urn in self._urns:
                raise self._refuse(f"Duplicate resource URN '{urn}'; try giving it a unique name", urn)
            self._urns[urn] = Realized()

    # The method names below are those of the SDK's gRPC service.

    def RegisterResource(self, request: Any) -> resource_pb2.RegisterResourceResponse:  # noqa: N802 - named by the SDK
        """Answer the declaration of a resource."""
        urn = make_urn(stack=self.stack, project=self.project, parent=request.parent, type_=request.type, name=request.name)
        if request.type == STACK_TYPE:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        if request.remote:
            raise self._refuse("a component of another program cannot be rehearsed; declare its resources in this program", urn)
        self._claim(urn)
        registration = Registration(
            urn=urn,
            type=request.type,
            name=request.name,
            custom=request.custom,
            parent=request.parent or stack_urn(self.stack, self.project),
            inputs=with_name(request.type, request.name, urn, from_wire(request.object), provider=self._provider(request)),
            dependencies=tuple(sorted(request.dependencies)),
            property_dependencies={key: tuple(sorted(deps.urns)) for key, deps in sorted(request.propertyDependencies.items())},
            provider=request.provider.rpartition("::")[0],
            options=wire_options.decode(request, stack=self.stack, project=self.project),
        )
        self.registrations.append(registration)
        if registration.type.startswith(PROVIDER_PREFIX):
            self._providers[urn] = registration.inputs
        realized = self.realizer.register(registration)
        self._urns[urn] = realized
        if realized.failed:
            return resource_pb2.RegisterResourceResponse(urn=urn, result=resource_pb2.FAIL)
        return resource_pb2.RegisterResourceResponse(urn=urn, id=realized.id, object=_outputs(request, registration, realized))

    def ReadResource(self, request: Any) -> resource_pb2.ReadResourceResponse:  # noqa: N802 - named by the SDK
        """Answer the look-up of a resource that exists already."""
        urn = make_urn(stack=self.stack, project=self.project, parent=request.parent, type_=request.type, name=request.name)
        self._claim(urn)
        registration = Registration(
            urn=urn,
            type=request.type,
            name=request.name,
            custom=True,
            parent=request.parent or stack_urn(self.stack, self.project),
            inputs=from_wire(request.properties),
            dependencies=tuple(sorted(request.dependencies)),
            provider=request.provider.rpartition("::")[0],
            read=True,
            id=request.id,
        )
        self.registrations.append(registration)
        realized = self.realizer.read(registration)
        self._urns[urn] = realized
        outputs = registration.inputs if realized.outputs is None else realized.outputs
        return resource_pb2.ReadResourceResponse(urn=urn, properties=to_wire(outputs))

    def RegisterResourceOutputs(self, request: Any) -> empty_pb2.Empty:  # noqa: N802 - named by the SDK
        """Keep the outputs of the stack, or of a component."""
        outputs = from_wire(request.outputs)
        if request.urn == stack_urn(self.stack, self.project):
            self.outputs.update(outputs)
        else:
            self.component_outputs[request.urn] = outputs
        return empty_pb2.Empty()

    def Invoke(self, request: Any) -> resource_pb2.ResourceInvokeResponse:  # noqa: N802 - named by the SDK
        """Answer a provider function."""
        arguments = from_wire(request.args)
        if request.tok == "pulumi:pulumi:getResource":
            return self._resource_state(str(arguments.get("urn")))
        answer = self.realizer.invoke(request.tok, arguments)
        return _answer(answer)

    def _resource_state(self, urn: str) -> resource_pb2.ResourceInvokeResponse:
        found = next((each for each in self.registrations if each.urn == urn), None)
        if found is None:
            raise self._refuse(f"unknown resource {urn}", urn)
        realized = self._urns[urn]
        state = found.inputs if realized.outputs is None else dict(realized.outputs)
        return _answer({"urn": urn, "id": realized.id, "state": state})

    def Call(self, request: Any) -> NoReturn:  # noqa: N802 - named by the SDK
        """Refuse a method call: no provider runs here that could answer."""
        raise self._refuse(f"the method {request.tok} needs a provider, and the rehearsal runs none; use the Pulumi CLI for it", "")

    def GetDeploymentInfo(self, request: Any) -> resource_pb2.DeploymentInfo:  # noqa: N802, ARG002 - named by the SDK
        """Say what this monitor supports."""
        return resource_pb2.DeploymentInfo(supportedFeatures=_FEATURES)

    def RegisterPackage(self, request: Any) -> resource_pb2.RegisterPackageResponse:  # noqa: N802 - named by the SDK
        """Accept a parameterized package; its resources are recorded like any other."""
        return resource_pb2.RegisterPackageResponse(ref=f"{request.name}@{request.version}")

    def SignalAndWaitForShutdown(self, request: Any) -> empty_pb2.Empty:  # noqa: N802, ARG002 - named by the SDK
        """Let the program end."""
        return empty_pb2.Empty()

    # The engine's side of the protocol: two calls, so the monitor answers them too.

    def Log(self, request: Any) -> empty_pb2.Empty:  # noqa: N802 - named by the SDK
        """Keep a message of the program; the SDK's own debug chatter is dropped."""
        if request.severity != engine_pb2.DEBUG and not request.ephemeral:
            self.diagnostics.append(Diagnostic(severity=_SEVERITIES[request.severity], message=request.message, urn=request.urn))
        return empty_pb2.Empty()

    def RequirePulumiVersion(self, request: Any) -> SimpleNamespace:  # noqa: N802, ARG002 - named by the SDK
        """Accept any version demand: it speaks about the CLI, which is not here."""
        return SimpleNamespace()


def _outputs(request: Any, registration: Registration, realized: Realized) -> struct_pb2.Struct:
    texts = document_texts(registration)
    if realized.outputs is not None:
        return to_wire({**realized.outputs, **texts})
    # The inputs are on the wire already; spelling them out again would take a tenth of the time of a plan.
    outputs = struct_pb2.Struct()
    outputs.CopyFrom(request.object)
    metadata = registration.inputs.get("metadata")
    if isinstance(metadata, dict):
        if "name" in metadata and "name" not in outputs.fields["metadata"].struct_value.fields:
            return to_wire({**registration.inputs, "metadata": {**metadata, **dict.fromkeys(realized.unknown_metadata, UNKNOWN)}})
        for name in realized.unknown_metadata:
            outputs.fields["metadata"].struct_value.fields[name].string_value = UNKNOWN_TEXT
    for name, text in texts.items():
        outputs.fields[name].string_value = UNKNOWN_TEXT if text is UNKNOWN else text
    return outputs


def _answer(properties: Mapping[str, Any]) -> resource_pb2.ResourceInvokeResponse:
    fields: dict[str, Any] = {"return": to_wire(properties)}  # a keyword of Python, so it cannot be written as an argument
    return resource_pb2.ResourceInvokeResponse(**fields)
