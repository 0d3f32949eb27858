"""An AWS provider for Pulumi's engine that keeps everything in memory and asks AWS nothing.

It speaks the ResourceProvider protocol by the classes in Pulumi's own Python package, and the
engine attaches to it by PULUMI_DEBUG_PROVIDERS. What it answers is what the rehearsal answers; a
test adds what it needs to see. It checks no input.
"""

# ruff: noqa: N802, ARG002 - methods are called as the protocol calls them, and are handed all that
# it has
from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from inferplan.pulumi_engine.providers.aws import answer, realize
from inferplan.pulumi_engine.values import from_wire, to_wire

Outputs = dict[str, Any]


class AwsStub(provider_pb2_grpc.ResourceProviderServicer):
    """Makes, changes and deletes in memory. `log` tells what happened, in order: verb, type, name."""

    def __init__(self, version: str) -> None:
        self.log: list[tuple[str, str, str]] = []
        self.answers: dict[str, Outputs] = {}
        """Outputs by type or function that take the place of the usual ones."""
        self.missing: set[str] = set()
        """Functions that find nothing."""
        self.on_create: Callable[[str, Outputs], None] = lambda *_: None
        self.before_delete: Callable[[str, Outputs], None] = lambda *_: None
        self._version = version
        self._lock = threading.Lock()

    def note(self, verb: str, type_: str, name: str) -> None:
        """Adds a line to the log; tests add what they see themselves."""
        with self._lock:
            self.log.append((verb, type_, name))

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self._version)

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, context: Any) -> Any:
        before, after = from_wire(request.old_inputs), from_wire(request.news)
        changed = sorted(
            key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
        )
        kind = (
            provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        )
        return provider_pb2.DiffResponse(changes=kind, diffs=changed)

    def Create(self, request: Any, context: Any) -> Any:
        if request.preview:
            return provider_pb2.CreateResponse(properties=request.properties)
        inputs = from_wire(request.properties)
        type_, name = _type_of(request.urn), request.urn.rpartition("::")[2]
        registration: Any = SimpleNamespace(urn=request.urn, type=type_, name=name, inputs=inputs)
        id_, outputs = realize(registration)
        if isinstance(outputs.get("policy"), dict):
            # The provider takes a document as a structure and answers with text
            # (aws:iam/rolePolicy:RolePolicy).
            outputs["policy"] = json.dumps(outputs["policy"])
        self.on_create(type_, inputs)
        self.note("create", type_, name)
        return provider_pb2.CreateResponse(
            id=id_, properties=to_wire({**outputs, **self.answers.get(type_, {})})
        )

    def Read(self, request: Any, context: Any) -> Any:
        return provider_pb2.ReadResponse(
            id=request.id, properties=request.properties, inputs=request.inputs
        )

    def Update(self, request: Any, context: Any) -> Any:
        self.note("update", _type_of(request.urn), request.urn.rpartition("::")[2])
        return provider_pb2.UpdateResponse(
            properties=to_wire({**from_wire(request.olds), **from_wire(request.news)})
        )

    def Delete(self, request: Any, context: Any) -> Any:
        type_, name = _type_of(request.urn), request.urn.rpartition("::")[2]
        try:
            self.before_delete(type_, from_wire(request.properties))
        except AssertionError as refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))
        self.note("delete", type_, name)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        found = (
            None if request.tok in self.missing else answer(request.tok, from_wire(request.args))
        )
        if found is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "couldn't find resource")
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(
            to_wire({**(found or {}), **self.answers.get(request.tok, {})})
        )
        return response


def _type_of(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2]


@contextmanager
def serving(provider: AwsStub) -> Iterator[Mapping[str, str]]:
    """Serves `provider` on a free port of this machine; what an engine's environment has to say to
    find it.
    """
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=32))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield {"PULUMI_DEBUG_PROVIDERS": f"aws:{port}"}
    finally:
        server.stop(grace=None).wait()
