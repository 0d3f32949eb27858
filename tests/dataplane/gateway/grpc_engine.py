"""A model server in miniature that speaks KServe's gRPC service."""

from __future__ import annotations

from concurrent import futures

import grpc

from tests.ports import free_port

SERVICE = "inference.GRPCInferenceService"


class GrpcEngine:
    """A gRPC server of raw bytes: it echoes, streams answer by answer, and notes the metadata that
    reaches it.
    """

    def __init__(self):
        self.seen = []
        self.peers = []
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        handlers = {
            "ModelInfer": grpc.unary_unary_rpc_method_handler(self._infer),
            "ModelMetadata": grpc.unary_unary_rpc_method_handler(self._infer),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._stream),
            "RepositoryModelLoad": grpc.unary_unary_rpc_method_handler(self._infer),
        }
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        # A port of its own also after it has ended, so that nobody else answers in its place.
        self.port = self.server.add_insecure_port(f"127.0.0.1:{free_port()}")
        self.server.start()

    def _infer(self, request, context):
        self.seen.append(dict(context.invocation_metadata()))
        self.peers.append(context.peer())
        return request[::-1]

    def _stream(self, requests, context):
        self.seen.append(dict(context.invocation_metadata()))
        self.peers.append(context.peer())
        for request in requests:
            yield request[::-1]
