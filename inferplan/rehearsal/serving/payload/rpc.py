"""KServe's gRPC service of one model, in the process of the stubs. It is imported only if a model
speaks gRPC.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tritonclient
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from inferplan.rehearsal.serving.payload.protocols import prompt_of, spoken, tensors_of, words_of
from inferplan.rehearsal.serving.payload.replicas import Model
from inferplan.rehearsal.serving.payload.web import Denied

_SERVICE = "inference.GRPCInferenceService"
_CODES = {404: Status.NOT_FOUND, 501: Status.UNIMPLEMENTED}


def _messages() -> Any:
    # The package itself imports grpc, numpy and the generated services, which take 40 MiB.
    package = ModuleType("tritonclient.grpc")
    package.__path__ = [str(Path(tritonclient.__path__[0]) / "grpc")]
    sys.modules.setdefault(package.__name__, package)
    return import_module("tritonclient.grpc.service_pb2")


def _raw(tensor: dict[str, Any], text: str) -> bytes:
    """The elements of an output in KServe's raw form, in which a text follows its length: `text`,
    or zeros.
    """
    kind, count = tensor["datatype"], math.prod(tensor["shape"])
    if kind == "BYTES":
        return (len(text.encode()).to_bytes(4, "little") + text.encode()) * count
    return bytes(count * (1 if kind == "BOOL" else int("".join(filter(str.isdigit, kind))) // 8))


class _Service:
    def __init__(self, model: Model) -> None:
        self._model, self._messages = model, _messages()

    def __mapping__(self) -> dict[str, Handler]:
        messages = self._messages
        calls = {
            "ModelInfer": (
                self._infer,
                Cardinality.UNARY_UNARY,
                messages.ModelInferRequest,
                messages.ModelInferResponse,
            ),
            "ModelMetadata": (
                self._metadata,
                Cardinality.UNARY_UNARY,
                messages.ModelMetadataRequest,
                messages.ModelMetadataResponse,
            ),
            "ModelStreamInfer": (
                self._stream,
                Cardinality.STREAM_STREAM,
                messages.ModelInferRequest,
                messages.ModelStreamInferResponse,
            ),
        }
        return {f"/{_SERVICE}/{name}": Handler(*call) for name, call in calls.items()}

    async def _requests(
        self, stream: Any
    ) -> AsyncGenerator[tuple[Any, list[dict[str, Any]], AsyncIterator[str]]]:
        """Yield each request of a call with its outputs and the words of its answer. Without a
        Ready replica the call ends with UNAVAILABLE.
        """
        replica = self._model.choose()
        if replica is None:
            raise GRPCError(Status.UNAVAILABLE, "no replica is ready")
        if not self._model.accepts(replica, stream.metadata.get("authorization", "")):
            raise GRPCError(Status.UNAUTHENTICATED, "Unauthorized")
        if self._model.fails_next():
            replica.counts["failure"] += 1
            raise GRPCError(
                Status.INTERNAL, "the profile of the rehearsal lets this request fail (failEvery)"
            )
        await stream.send_initial_metadata(metadata={"x-inferplan-stub": replica.name})
        async for request in stream:
            outputs, prompt = self._tensors(request.model_name)["outputs"], self._prompt(request)
            yield (
                request,
                outputs,
                spoken(self._model, replica, prompt, words_of(self._model, prompt)),
            )

    def _prompt(self, request: Any) -> str:
        tensors = dict(
            zip((each.name for each in request.inputs), request.raw_input_contents, strict=False)
        )
        # In raw contents a text follows its length in four bytes.
        texts = {name: raw[4:].decode("utf-8", "replace") for name, raw in tensors.items()}
        texts |= {
            each.name: each.contents.bytes_contents[0].decode("utf-8", "replace")
            for each in request.inputs
            if each.contents.bytes_contents
        }
        return prompt_of(self._model, request.model_name, texts.get)

    def _tensors(self, name: str) -> Any:
        try:
            return tensors_of(self._model, name)
        except Denied as error:
            raise GRPCError(_CODES[error.status], error.message) from error

    def _response(self, request: Any, outputs: list[dict[str, Any]], text: str) -> Any:
        response = self._messages.ModelInferResponse(
            model_name=request.model_name, model_version="1", id=request.id
        )
        for each in outputs:
            response.outputs.add(name=each["name"], datatype=each["datatype"], shape=each["shape"])
            response.raw_output_contents.append(_raw(each, text))
        return response

    async def _infer(self, stream: Any) -> None:
        async for request, outputs, words in self._requests(stream):
            await stream.send_message(
                self._response(request, outputs, "".join([word async for word in words]))
            )

    async def _metadata(self, stream: Any) -> None:
        request = await stream.recv_message()
        tensors = self._tensors(request.name)
        described = {
            kind: [
                {key: each[key] for key in ("name", "datatype", "shape")} for each in tensors[kind]
            ]
            for kind in ("inputs", "outputs")
        }
        message = self._messages.ModelMetadataResponse(
            name=request.name, versions=["1"], platform="inferplan-stub", **described
        )
        await stream.send_message(message)

    async def _stream(self, stream: Any) -> None:
        async for request, outputs, words in self._requests(stream):
            async for word in words:
                await stream.send_message(
                    self._messages.ModelStreamInferResponse(
                        infer_response=self._response(request, outputs, word)
                    )
                )
            last = self._response(request, [], "")
            last.parameters["triton_final_response"].bool_param = True
            await stream.send_message(self._messages.ModelStreamInferResponse(infer_response=last))


async def serve(model: Model, port: int) -> Server:
    """Start the service of `model` on 127.0.0.1, also without a Ready replica."""
    server = Server([_Service(model)])
    await server.start("127.0.0.1", port)
    return server
