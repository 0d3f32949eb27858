"""KServe v2 over HTTP and gRPC, Triton's generate, and Ray Serve: the listed calls pass to the
right port, others do not.
"""

from __future__ import annotations

import json
import threading
from contextlib import closing, contextmanager, suppress

import grpc
import pytest

from inferplan.components.gateway import keys
from inferplan.components.handles import EndpointProtocol
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.engine_routes import METHODS, OTHERS, SERVED, TRITON_AND_RAY
from tests.dataplane.gateway.grpc_engine import SERVICE, GrpcEngine
from tests.dataplane.gateway.stand import LONG_AGO, Proxy, consumer, endpoint, spec, wait_for
from tests.patience import PATIENCE_SECONDS


@contextmanager
def serving(directory):
    http, engine = Backend().start(), GrpcEngine()
    protocols = (
        EndpointProtocol(kind="kserve-v2-http", port=http.port, path="/v2"),
        EndpointProtocol(kind="triton-generate", port=http.port, path="/v2"),
        EndpointProtocol(kind="kserve-v2-grpc", port=engine.port, path="/"),
    )
    proxy = Proxy(directory)
    endpoints = [
        endpoint(
            "vision", http.port, ("chat", "former"), *protocols, served=("resnet", "densenet_onnx")
        ),
        endpoint("closed", http.port, ("other",), *protocols, served=("resnet",)),
        endpoint(
            "app",
            http.port,
            ("chat",),
            EndpointProtocol(kind="ray-serve", port=http.port, path="/summarize"),
        ),
        endpoint("llm", http.port, ("chat",)),
    ]
    consumers = {
        "chat": consumer(keys=[2, 1]),
        "other": consumer(keys=[1]),
        "former": consumer(keys=[1], expires={1: LONG_AGO.isoformat()}),
    }
    try:
        yield proxy.run(spec(), endpoints, consumers), http, engine
    finally:
        proxy.stop()
        http.stop()
        engine.server.stop(None)


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("triton")) as made:
        yield made


@pytest.fixture
def triton(stand):
    """The gateway, an HTTP and a gRPC server, which have seen nothing yet."""
    _proxy, http, engine = stand
    http.seen.clear()
    engine.seen.clear()
    return stand


ALLOWED = {
    ("POST", "/v2/models/resnet/infer"),
    ("POST", "/v2/models/densenet_onnx/infer"),
    ("POST", "/v2/models/resnet/versions/1/infer"),
    ("GET", "/v2/models/resnet"),
    ("GET", "/v2/models/resnet/versions/1"),
    ("POST", "/v2/models/resnet/generate"),
    ("POST", "/v2/models/resnet/generate_stream"),
    ("POST", "/v2/models/resnet/versions/1/generate_stream"),
}


def test_of_triton_s_routes_exactly_inference_and_metadata_pass(triton):
    proxy, http, _ = triton
    routes = {route for _, route in ALLOWED} | {
        *TRITON_AND_RAY.split(),
        *SERVED.split(),
        *OTHERS.split(),
        "/v2/models/unlisted/infer",
    }
    routes |= {
        "/v2/models/resnet/versions/0/infer",
        "/v2/models/resnet/versions/x/infer",
        "/v2/models/resnet/load",
        "/v2/models//infer",
    }
    wrong = []
    for route in sorted(routes):
        for method in METHODS:
            http.seen.clear()
            status = proxy.call(
                method, f"/vision{route}", proxy.key("chat"), b"{}" if method == "POST" else None
            ).status
            reached = [(each.method, each.target) for each in http.seen]
            expected = (200, [(method, route)]) if (method, route) in ALLOWED else (404, [])
            if (status, reached) != expected:
                wrong.append((method, route, status, reached))
    assert not wrong


def test_a_model_has_no_routes_of_a_protocol_that_it_does_not_speak(triton):
    proxy, http, _ = triton
    for path in (
        "/llm/v2/models/resnet/infer",
        "/vision/v1/models",
        "/llm/serve",
        "/vision/serve/x",
    ):
        for method in ("GET", "POST"):
            assert proxy.call(method, path, proxy.key("chat"), None).status == 404
    assert not http.seen


@pytest.mark.parametrize(
    ("path", "target"),
    [("/app/serve", "/summarize"), ("/app/serve/long/text-1.txt", "/summarize/long/text-1.txt")],
)
def test_a_serve_application_is_called_under_its_own_prefix(triton, path, target):
    proxy, http, _ = triton
    assert proxy.call("POST", path, proxy.key("chat"), b"{}").status == 200
    assert [each.target for each in http.seen] == [target]


@pytest.mark.parametrize(
    "path",
    [
        "/app/serve/-/routes",
        "/app/serve/../-/routes",
        "/app/serve/-/healthz",
        "/app/-/routes",
        "/app/serve/",
    ],
)
def test_serve_s_own_routes_stay_inside(triton, path):
    proxy, http, _ = triton
    assert proxy.call("POST", path, proxy.key("chat"), b"{}").status == 404
    assert not http.seen


def _call(proxy, method, metadata, payload=b"abc"):
    with grpc.insecure_channel(f"127.0.0.1:{proxy.grpc_port}") as channel:
        return channel.unary_unary(f"/{method}")(
            payload, metadata=metadata, timeout=PATIENCE_SECONDS
        )


def test_a_grpc_call_with_a_key_reaches_the_model_it_names(triton):
    proxy, _, engine = triton
    key = proxy.key("chat")
    metadata = (
        ("x-api-key", key),
        ("x-model", "vision"),
        ("x-consumer", "other"),
        ("x-forwarded-user", "root"),
        ("trace", "kept"),
    )
    assert _call(proxy, f"{SERVICE}/ModelInfer", metadata) == b"cba"
    [seen] = engine.seen
    assert seen["x-consumer"] == "chat"
    assert seen["authorization"] == f"Bearer {keys.server_key(proxy.seed, 'vision')}"
    assert seen["trace"] == "kept"
    assert not {"x-api-key", "x-model", "x-forwarded-user"} & set(seen)
    assert key not in repr(seen)


def test_a_grpc_key_may_be_a_bearer(triton):
    proxy, _, _ = triton
    assert (
        _call(
            proxy,
            f"{SERVICE}/ModelMetadata",
            (("authorization", f"Bearer {proxy.key('chat')}"), ("x-model", "vision")),
        )
        == b"cba"
    )


@pytest.mark.parametrize(
    ("method", "who", "model", "code"),
    [
        ("ModelInfer", None, "vision", grpc.StatusCode.UNAUTHENTICATED),
        ("ModelInfer", "nobody", "vision", grpc.StatusCode.UNAUTHENTICATED),
        ("ModelInfer", "chat", "closed", grpc.StatusCode.NOT_FOUND),
        ("ModelInfer", "chat", "llm", grpc.StatusCode.UNIMPLEMENTED),
        ("ModelInfer", "chat", "nothing", grpc.StatusCode.NOT_FOUND),
        ("ModelInfer", "chat", "", grpc.StatusCode.UNIMPLEMENTED),
        ("RepositoryModelLoad", "chat", "vision", grpc.StatusCode.UNIMPLEMENTED),
        ("ServerLive", "chat", "vision", grpc.StatusCode.UNIMPLEMENTED),
    ],
)
def test_a_grpc_call_without_right_is_refused_in_grpc_s_own_codes(triton, method, who, model, code):
    proxy, _, engine = triton
    metadata = [("x-model", model)] + ([("x-api-key", proxy.key(who))] if who else [])
    with pytest.raises(grpc.RpcError) as refused:
        _call(proxy, f"{SERVICE}/{method}", metadata)
    assert refused.value.code() == code
    # Without words of ours grpc would make up its own from the HTTP status.
    assert "http2 header" not in (refused.value.details() or "")
    assert not engine.seen


_INFERENCE = ("ModelInfer", "ModelStreamInfer", "ModelMetadata")
_NEVER = (
    "ServerLive ServerReady ServerMetadata ModelReady ModelConfig ModelStatistics RepositoryIndex"
    " RepositoryModelLoad RepositoryModelUnload SystemSharedMemoryStatus SystemSharedMemoryRegister"
    " SystemSharedMemoryUnregister CudaSharedMemoryStatus CudaSharedMemoryRegister"
    " CudaSharedMemoryUnregister TraceSetting LogSettings modelinfer ModelInfer2"
)
_ELSEWHERE = (
    "grpc.health.v1.Health/Check",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "inference.Other/ModelInfer",
)


def _grpc_expected(kind, call):
    service, _, method = call.partition("/")
    if kind not in ("valid", "older but valid", "of another model"):
        return grpc.StatusCode.UNAUTHENTICATED
    if service != SERVICE or not method.isalpha():
        return grpc.StatusCode.UNIMPLEMENTED
    if kind == "of another model":
        return grpc.StatusCode.NOT_FOUND
    return grpc.StatusCode.OK if method in _INFERENCE else grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_each_grpc_method_and_kind_of_key_gets_exactly_its_code(triton, header):
    proxy, _, engine = triton
    kinds = {
        "none": None,
        "wrong": proxy.key("chat")[:-8] + "x" * 8,
        "valid": proxy.key("chat", 2),
        "older but valid": proxy.key("chat"),
        "expired": proxy.key("former"),
        "retired": proxy.key("chat", 3),
        "of another model": proxy.key("other"),
    }
    calls = [*(f"{SERVICE}/{each}" for each in (*_INFERENCE, *_NEVER.split())), *_ELSEWHERE]
    wrong, passed = [], 0
    with grpc.insecure_channel(f"127.0.0.1:{proxy.grpc_port}") as channel:
        for kind, key in kinds.items():
            shown = "" if key is None else f"Bearer {key}" if header == "authorization" else key
            metadata = (("x-model", "vision"), (header, shown))
            for call in calls:
                stream = channel.stream_stream(f"/{call}")(
                    iter([b"abc"]), metadata=metadata, timeout=PATIENCE_SECONDS
                )
                with suppress(grpc.RpcError):
                    assert list(stream) == [b"cba"]
                if (code := stream.code()) != _grpc_expected(kind, call):
                    wrong.append((kind, call, code))
                passed += code == grpc.StatusCode.OK
    assert not wrong
    assert len(engine.seen) == passed == 2 * len(_INFERENCE)


@pytest.mark.parametrize(
    "path",
    [
        f"/{SERVICE}/Model%49nfer",
        f"/{SERVICE}//ModelInfer",
        f"//{SERVICE}/ModelInfer",
        f"/x/../{SERVICE}/ModelInfer",
        f"/{SERVICE}/./ModelInfer",
        f"/{SERVICE}/ModelInfer?x=1",
        f"/{SERVICE.lower()}/ModelInfer",
    ],
)
def test_another_spelling_of_a_grpc_method_reaches_no_engine(triton, path):
    proxy, _, _ = triton
    with closing(grpc.insecure_channel(f"127.0.0.1:{proxy.grpc_port}")) as channel:
        call = channel.unary_unary(path).future(
            b"abc",
            metadata=(("x-api-key", proxy.key("chat")), ("x-model", "vision")),
            timeout=PATIENCE_SECONDS,
        )
        assert call.code() == grpc.StatusCode.UNIMPLEMENTED
        request_id = dict([*call.initial_metadata(), *call.trailing_metadata()])["x-request-id"]
    line = json.loads(next(each for each in _log_with(proxy, request_id) if request_id in each))
    assert line["upstream"] == ""


def _log_with(proxy, text):
    wait_for(
        lambda: text in (proxy.directory / "access.log").read_text().rpartition("\n")[0],
        "the log has the call",
    )
    return (proxy.directory / "access.log").read_text().splitlines()


def test_a_grpc_stream_runs_both_ways_message_by_message(triton):
    proxy, _, _ = triton
    answered = threading.Semaphore(0)

    def messages():
        for number in range(5):
            yield f"message {number}".encode()
            # The next message leaves only when the answer to this one is here: neither side waits
            # for the other's end.
            assert answered.acquire(timeout=PATIENCE_SECONDS)

    with grpc.insecure_channel(f"127.0.0.1:{proxy.grpc_port}") as channel:
        stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        metadata = (("x-api-key", proxy.key("chat")), ("x-model", "vision"))
        for number, answer in enumerate(
            stream(messages(), metadata=metadata, timeout=PATIENCE_SECONDS)
        ):
            assert answer == f"message {number}".encode()[::-1]
            answered.release()
    assert number == 4


def test_a_dead_grpc_engine_is_unavailable(tmp_path):
    with serving(tmp_path) as (proxy, _, engine):
        engine.server.stop(None).wait()
        with pytest.raises(grpc.RpcError) as refused:
            _call(
                proxy,
                f"{SERVICE}/ModelInfer",
                (("x-api-key", proxy.key("chat")), ("x-model", "vision")),
            )
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


def test_the_http_port_serves_no_grpc_path_and_the_grpc_port_no_http_one(triton):
    proxy, http, engine = triton
    for headers in (
        {"X-Model": "vision"},
        {"X-Model": "vision", "Content-Type": "application/grpc"},
    ):
        assert (
            proxy.call("POST", f"/{SERVICE}/ModelInfer", proxy.key("chat"), b"", headers).status
            == 404
        )
    with (
        pytest.raises(grpc.RpcError) as refused,
        closing(grpc.insecure_channel(f"127.0.0.1:{proxy.grpc_port}")) as channel,
    ):
        channel.unary_unary("/vision/v2/models/resnet/infer")(
            b"{}", metadata=(("x-api-key", proxy.key("chat")),), timeout=PATIENCE_SECONDS
        )
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert not http.seen
    assert not engine.seen
