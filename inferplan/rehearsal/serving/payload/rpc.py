"""KServe's gRPC service of one model, in the process of the stubs. It is imported only if a model speaks gRPC."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc

from inferplan.rehearsal.serving.payload.protocols import prompt_of, spoken, tensors_of, words_of
from inferplan.rehearsal.serving.payload.replicas import Model, Replica
from inferplan.rehearsal.serving.payload.web import Denied

_SERVICE = "inference.GRPCInferenceService"
_CODES = {404: "NOT_FOUND", 501: "UNIMPLEMENTED"}


def _messages() -> Any:
    # The package itself imports numpy and the generated services, which take 40 MiB.
    package = find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise ImportError("tritonclient is not installed. Run make setup.")
    parent = ModuleType("tritonclient.grpc")
    parent.__path__ = [str(Path(next(iter(package.submodule_search_locations))) / "grpc")]
    sys.modules.setdefault("tritonclient.grpc", parent)
    return import_module("tritonclient.grpc.service_pb2")


def _raw(tensor: dict[str, Any], text: str) -> bytes:
    """The elements of an output in KServe's raw form, in which a text follows its length: `text`, or zeros."""
    kind, count = tensor["datatype"], math.prod(tensor["shape"])
    if kind == "BYTES":
        return (len(text.encode()).to_bytes(4, "little") + text.encode()) * count
    return bytes(count * (1 if kind == "BOOL" else int("".join(filter(str.isdigit, kind))) // 8))


class _Service:
    def __init__(self, model: Model) -> None:
        self._model, self._messages = model, _messages()

    async def _admit(self, context: Any) -> Replica:
        metadata = {str(key): str(value) for key, value in context.invocation_metadata()}
        replica = self._model.choose()
        if replica is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no replica is ready")
        elif not self._model.accepts(replica, metadata.get("authorization", "")):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Unauthorized")
        elif self._model.fails_next():
            replica.counts["failure"] += 1
            await context.abort(grpc.StatusCode.INTERNAL, "the profile of the rehearsal lets this request fail (failEvery)")
        await context.send_initial_metadata((("x-inferplan-stub", replica.name),))  # pyrefly: ignore[missing-attribute] - abort raises
        return replica  # pyrefly: ignore[bad-return] - abort raises

    def _prompt(self, request: Any) -> str:
        tensors = dict(zip((each.name for each in request.inputs), request.raw_input_contents, strict=False))
        # In raw contents a text follows its length in four bytes.
        texts = {name: raw[4:].decode("utf-8", "replace") for name, raw in tensors.items()}
        texts |= {
            each.name: each.contents.bytes_contents[0].decode("utf-8", "replace") for each in request.inputs if each.contents.bytes_contents
        }
        return prompt_of(self._model, request.model_name, texts.get)

    async def _tensors(self, name: str, context: Any) -> Any:
        try:
            return tensors_of(self._model, name)
        except Denied as error:
            await context.abort(grpc.StatusCode[_CODES[error.status]], error.message)

    def _response(self, request: Any, outputs: list[dict[str, Any]], text: str) -> Any:
        response = self._messages.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        for each in outputs:
            response.outputs.add(name=each["name"], datatype=each["datatype"], shape=each["shape"])
            response.raw_output_contents.append(_raw(each, text))
        return response

    async def infer(self, request: Any, context: Any) -> Any:
        replica, tensors = await self._admit(context), await self._tensors(request.model_name, context)
        prompt = self._prompt(request)
        words = [each async for each in spoken(self._model, replica, prompt, words_of(self._model, prompt))]
        return self._response(request, tensors["outputs"], "".join(words))

    async def metadata(self, request: Any, context: Any) -> Any:
        tensors = await self._tensors(request.name, context)
        response = self._messages.ModelMetadataResponse(name=request.name, versions=["1"], platform="inferplan-stub")
        for field in ("inputs", "outputs"):
            for each in tensors[field]:
                getattr(response, field).add(name=each["name"], datatype=each["datatype"], shape=each["shape"])
        return response

    async def stream(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        replica = await self._admit(context)
        async for request in requests:
            tensors, prompt = await self._tensors(request.model_name, context), self._prompt(request)
            async for word in spoken(self._model, replica, prompt, words_of(self._model, prompt)):
                yield self._messages.ModelStreamInferResponse(infer_response=self._response(request, tensors["outputs"], word))
            last = self._response(request, [], "")
            last.parameters["triton_final_response"].bool_param = True
            yield self._messages.ModelStreamInferResponse(infer_response=last)


async def serve(model: Model, port: int) -> Any:
    """Start the service of `model` on 127.0.0.1; without a Ready replica it answers UNAVAILABLE."""
    service, messages = _Service(model), _messages()
    kinds = {
        "ModelInfer": (grpc.unary_unary_rpc_method_handler, service.infer, messages.ModelInferRequest),
        "ModelMetadata": (grpc.unary_unary_rpc_method_handler, service.metadata, messages.ModelMetadataRequest),
        "ModelStreamInfer": (grpc.stream_stream_rpc_method_handler, service.stream, messages.ModelInferRequest),
    }
    handlers = {
        name: handler(function, request_deserializer=kind.FromString, response_serializer=lambda message: message.SerializeToString())
        for name, (handler, function, kind) in kinds.items()
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server
