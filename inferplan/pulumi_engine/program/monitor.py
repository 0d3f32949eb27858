"""A resource monitor in this process: answers the calls of the Pulumi SDK as a `Realizer` decides,
and records registrations.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol

from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import engine_pb2, resource_pb2

from inferplan.errors import RegistrationRefused
from inferplan.kube.marks import UNKNOWN_TEXT
from inferplan.pulumi_engine.program import requests
from inferplan.pulumi_engine.providers.aws import document_texts
from inferplan.pulumi_engine.providers.kubernetes import identity
from inferplan.pulumi_engine.recording import (
    PROVIDER_PREFIX,
    STACK_TYPE,
    Diagnostic,
    Recording,
    Registration,
    make_urn,
    ordered,
    stack_urn,
)
from inferplan.pulumi_engine.values import UNKNOWN, from_wire, to_wire

_FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
    resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACE_WITH,
    resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACEMENT_TRIGGER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Realized:
    """The answer to a registration: `outputs` (None: the inputs), unknown metadata, and `failed`,
    which makes each output unknown.
    """

    id: str = ""
    outputs: Mapping[str, Any] | None = None
    unknown_metadata: tuple[str, ...] = ()
    failed: bool = False


class Realizer(Protocol):
    """Decides what a program gets back. `apply` calls it from several threads."""

    def register(self, registration: Registration) -> Realized:
        """The answer to a declared resource."""
        ...

    def read(self, registration: Registration) -> Realized:
        """The answer to a resource that is looked up by its id."""
        ...

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The result of the provider function `token`; None if a plan does not know it."""
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
    _objects: dict[tuple[str, ...], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def recording(self) -> Recording:
        """The registrations so far, in an order that does not depend on the order of arrival."""
        return Recording(
            project=self.project,
            stack=self.stack,
            registrations=ordered(self.registrations),
            outputs=self.outputs,
            component_outputs=self.component_outputs,
            diagnostics=tuple(self.diagnostics),
        )

    def _refuse(self, message: str) -> RegistrationRefused:
        refused = RegistrationRefused(message)
        self.refused = self.refused or refused
        return refused

    def _claim(self, request: Any) -> str:
        urn = make_urn(
            stack=self.stack,
            project=self.project,
            parent=request.parent,
            type_=request.type,
            name=request.name,
        )
        with self._lock:
            if urn in self._urns:
                raise self._refuse(f"Duplicate resource URN '{urn}'; try giving it a unique name")
            self._urns[urn] = Realized()
        return urn

    def _claim_object(self, registration: Registration, provider: Mapping[str, Any]) -> None:
        """Reject a second declaration of one Kubernetes object, which an update would overwrite
        with the first or the other way round.
        """
        wanted = identity(registration.type, registration.inputs, provider.get("namespace") or "")
        if wanted is None:
            return
        with self._lock:
            first = self._objects.setdefault((registration.provider, *wanted), registration.urn)
        if first != registration.urn:
            _, kind, namespace, name = wanted
            shown = f"{namespace}/{name}" if namespace else name
            raise self._refuse(
                f"{kind} {shown} is declared twice: by {first} and {registration.urn}. Rename one"
                " of them"
            )

    # The method names below are those of the SDK's gRPC service.

    def RegisterResource(self, request: Any) -> resource_pb2.RegisterResourceResponse:  # noqa: N802 - named by the SDK
        if request.type == STACK_TYPE:
            return resource_pb2.RegisterResourceResponse(urn=stack_urn(self.stack, self.project))
        if request.remote:
            raise self._refuse(
                f"the rehearsal does not run {request.type}, a component of another program."
                " Declare its resources in this program."
            )
        urn = self._claim(request)
        provider = self._providers.get(request.provider.rpartition("::")[0], {})
        registration = requests.declared(
            request, urn, stack=self.stack, project=self.project, provider=provider
        )
        self._claim_object(registration, provider)
        self.registrations.append(registration)
        if registration.type.startswith(PROVIDER_PREFIX):
            self._providers[urn] = registration.inputs
        realized = self.realizer.register(registration)
        self._urns[urn] = realized
        if realized.failed:
            return resource_pb2.RegisterResourceResponse(urn=urn, result=resource_pb2.FAIL)
        return resource_pb2.RegisterResourceResponse(
            urn=urn, id=realized.id, object=_outputs(request, registration, realized)
        )

    def ReadResource(self, request: Any) -> resource_pb2.ReadResourceResponse:  # noqa: N802 - named by the SDK
        urn = self._claim(request)
        registration = requests.existing(request, urn, stack=self.stack, project=self.project)
        self.registrations.append(registration)
        realized = self.realizer.read(registration)
        self._urns[urn] = realized
        outputs = registration.inputs if realized.outputs is None else realized.outputs
        return resource_pb2.ReadResourceResponse(urn=urn, properties=to_wire(outputs))

    def RegisterResourceOutputs(self, request: Any) -> empty_pb2.Empty:  # noqa: N802 - named by the SDK
        outputs = from_wire(request.outputs)
        if request.urn == stack_urn(self.stack, self.project):
            self.outputs.update(outputs)
        else:
            self.component_outputs[request.urn] = outputs
        return empty_pb2.Empty()

    def Invoke(self, request: Any) -> resource_pb2.ResourceInvokeResponse:  # noqa: N802 - named by the SDK
        arguments = from_wire(request.args)
        if request.tok == "pulumi:pulumi:getResource":
            return self._resource_state(str(arguments.get("urn")))
        return _answer(self.realizer.invoke(request.tok, arguments))

    def _resource_state(self, urn: str) -> resource_pb2.ResourceInvokeResponse:
        registration = next((each for each in self.registrations if each.urn == urn), None)
        if registration is None:
            raise self._refuse(f"unknown resource {urn}")
        realized = self._urns[urn]
        state = registration.inputs if realized.outputs is None else dict(realized.outputs)
        return _answer({"urn": urn, "id": realized.id, "state": state})

    def Call(self, request: Any) -> NoReturn:  # noqa: N802 - named by the SDK
        """Reject a method call: no provider runs."""
        raise self._refuse(
            f"the method {request.tok} needs a provider, and a rehearsal runs none. Use the Pulumi"
            " CLI."
        )

    def GetDeploymentInfo(self, request: Any) -> resource_pb2.DeploymentInfo:  # noqa: N802, ARG002 - named by the SDK
        """The features of this monitor."""
        return resource_pb2.DeploymentInfo(supportedFeatures=_FEATURES)

    def RegisterPackage(self, request: Any) -> resource_pb2.RegisterPackageResponse:  # noqa: N802 - named by the SDK
        return resource_pb2.RegisterPackageResponse(ref=f"{request.name}@{request.version}")

    def SignalAndWaitForShutdown(self, request: Any) -> empty_pb2.Empty:  # noqa: N802, ARG002 - named by the SDK
        return empty_pb2.Empty()

    # Two calls of the engine's service.

    def Log(self, request: Any) -> empty_pb2.Empty:  # noqa: N802 - named by the SDK
        """Record a message of the program, except debug messages of the SDK."""
        if request.severity != engine_pb2.DEBUG and not request.ephemeral:
            self.diagnostics.append(
                Diagnostic(
                    severity=engine_pb2.LogSeverity.Name(request.severity).lower(),
                    message=request.message,
                    urn=request.urn,
                )
            )
        return empty_pb2.Empty()

    def RequirePulumiVersion(self, request: Any) -> SimpleNamespace:  # noqa: N802, ARG002 - named by the SDK
        """Accept any version of the CLI: none runs here."""
        return SimpleNamespace()


def _outputs(request: Any, registration: Registration, realized: Realized) -> struct_pb2.Struct:
    texts = document_texts(registration)
    if realized.outputs is not None:
        return to_wire({**realized.outputs, **texts})
    # Copying the request saves a tenth of the time of a plan.
    outputs = struct_pb2.Struct()
    outputs.CopyFrom(request.object)
    metadata = registration.inputs.get("metadata")
    if isinstance(metadata, dict):
        if "name" in metadata and "name" not in outputs.fields["metadata"].struct_value.fields:
            return to_wire(
                {
                    **registration.inputs,
                    "metadata": {**metadata, **dict.fromkeys(realized.unknown_metadata, UNKNOWN)},
                }
            )
        for name in realized.unknown_metadata:
            outputs.fields["metadata"].struct_value.fields[name].string_value = UNKNOWN_TEXT
    for name, text in texts.items():
        outputs.fields[name].string_value = UNKNOWN_TEXT if text is UNKNOWN else text
    return outputs


def _answer(properties: Mapping[str, Any] | None) -> resource_pb2.ResourceInvokeResponse:
    if properties is None:
        return resource_pb2.ResourceInvokeResponse(unknown=True)
    fields: dict[str, Any] = {"return": to_wire(properties)}  # `return` is a keyword
    return resource_pb2.ResourceInvokeResponse(**fields)
