"""Sends one prompt to a model through its gateway, over HTTP or KServe's gRPC service, and yields
the answer as it arrives.
"""

from __future__ import annotations

import contextlib
import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from inferplan.client.messages import (
    ANSWER,
    AnswerError,
    Part,
    denial_error,
    error_text,
    parts_of,
    printable,
    request_of,
)
from inferplan.client.target import Caller, Target
from inferplan.errors import OperationError, one_line

if TYPE_CHECKING:
    import urllib3

# gRPC's codes for the HTTP statuses of the gateway (inferplan/components/gateway/answers.py).
_STATUSES = {
    "UNAUTHENTICATED": 401,
    "NOT_FOUND": 404,
    "UNIMPLEMENTED": 404,
    "RESOURCE_EXHAUSTED": 429,
    "DEADLINE_EXCEEDED": 504,
}


def answer(
    target: Target, who: Caller, prompt: str, *, max_tokens: int, silence_seconds: float, stack: str
) -> Iterator[Part]:
    """The parts of the answer to `prompt`. Gives up after `silence_seconds` without a byte. Raises
    OperationError, also without an answer.
    """
    send = _answer_by_grpc if target.kind == "kserve-v2-grpc" else _answer_by_http
    kinds: set[str] = set()
    try:
        for part in send(target, who, prompt, max_tokens, silence_seconds, stack):
            kinds |= {part.kind} if part.text.strip() else set()
            yield part
        if ANSWER not in kinds:
            raise AnswerError(
                f"sent no answer, only {' and '.join(sorted(kinds))}"
                if kinds
                else "sent no answer: its response has no text"
            )
    except AnswerError as failure:
        raise OperationError(printable(f"{target.model} {failure}")) from failure


def _answer_by_grpc(
    target: Target, who: Caller, prompt: str, max_tokens: int, silence_seconds: float, stack: str
) -> Iterator[Part]:
    import tritonclient.grpc as triton

    text = target.text
    if text is None:
        raise TypeError(f"{target.model}: gRPC needs a model with named tensors")
    inputs = [_tensor(triton, text.input, "BYTES", text.shape, prompt.encode())]
    if text.stream is not None:
        inputs.append(_tensor(triton, text.stream, "BOOL", text.shape, True))
    if text.tokens is not None:
        inputs.append(_tensor(triton, text.tokens, text.tokens_type, text.shape, max_tokens))
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client = triton.InferenceServerClient(target.url, ssl=target.url.endswith(":443"))
    try:
        client.start_stream(
            lambda result, error: answers.put((result, error)),
            headers={"x-api-key": who.key, "x-model": target.model},
        )
        # Triton's vllm backend takes sampling as parameters of the request; models that have an
        # input for it read none.
        bound = {"max_tokens": max_tokens} if text.tokens is None else None
        # A stream that was denied at once accepts no request; the reason is among the answers.
        with contextlib.suppress(triton.InferenceServerException):
            client.async_stream_infer(
                target.name, inputs, enable_empty_final_response=True, parameters=bound
            )
        while True:
            try:
                result, error = answers.get(timeout=silence_seconds)
            except queue.Empty:
                raise OperationError(
                    f"{target.url} sent nothing for {silence_seconds:g} s. Wait longer with"
                    " --timeout"
                ) from None
            if error is not None:
                raise _error(error, target, who, stack)
            response = result.get_response()
            if response.outputs:
                yield from (
                    Part(piece.decode("utf-8", "replace"))
                    for piece in result.as_numpy(text.output).reshape(-1)
                )
            if response.parameters["triton_final_response"].bool_param:
                return
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()


def _tensor(triton: Any, name: str, kind: str, shape: tuple[int, ...], value: Any) -> Any:
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    tensor = triton.InferInput(name, list(shape), kind)
    tensor.set_data_from_numpy(np.array([value], dtype=triton_to_np_dtype(kind)).reshape(shape))
    return tensor


def _error(error: Any, target: Target, who: Caller, stack: str) -> OperationError:
    # A server that fails after the stream began sends a message and no status.
    code = (error.status() or "").removeprefix("StatusCode.")
    message = one_line(error.message())
    if code == "UNAVAILABLE":
        return OperationError(
            f"no answer from {target.url}: {message}. Is the stack up? Name another gateway with"
            " --gateway HOST:PORT"
        )
    return denial_error(_STATUSES.get(code, 400), message, target, who, stack)


_CONNECT_SECONDS = 10


def _answer_by_http(
    target: Target, who: Caller, prompt: str, max_tokens: int, silence_seconds: float, stack: str
) -> Iterator[Part]:
    import urllib3

    request = request_of(target, prompt, max_tokens)
    headers = {"Authorization": f"Bearer {who.key}", "Content-Type": "application/json"}
    timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=silence_seconds)
    with (
        urllib3.PoolManager(timeout=timeout, retries=False) as pool,
        _explained(request.url, silence_seconds),
    ):
        response = pool.request(
            "POST",
            request.url,
            body=json.dumps(request.body).encode(),
            headers=headers,
            preload_content=False,
        )
        if response.status != 200:
            # The query of an address may hold a secret.
            moved = (
                response.headers.get("Location", "").partition("?")[0]
                if 300 <= response.status < 400
                else None
            )
            message = (
                error_text(response.data.decode("utf-8", "replace"))
                if moved is None
                else one_line(moved)
            )
            raise denial_error(response.status, printable(message), target, who, stack)
        if "html" in response.headers.get("Content-Type", "").lower():
            raise OperationError(
                f"{request.url} answered with an HTML page, for example of a login, and not with a model's response."
                f" {_ELSEWHERE}"
            )
        yield from parts_of(target, _lines(response))


@contextmanager
def _explained(url: str, silence_seconds: float) -> Iterator[None]:
    import urllib3

    try:
        yield
    except urllib3.exceptions.ReadTimeoutError as error:
        raise OperationError(
            f"{url} sent nothing for {silence_seconds:g} s. Wait longer with --timeout"
        ) from error
    except (urllib3.exceptions.NameResolutionError, urllib3.exceptions.LocationParseError) as error:
        raise OperationError(f"the name in {url} cannot be resolved. {_ELSEWHERE}") from error
    except urllib3.exceptions.SSLError as error:
        raise OperationError(
            f"the certificate of {url} is not trusted on this machine: {_reason(error)}. If"
            " a private authority issued it, name the authority's file in SSL_CERT_FILE"
        ) from error
    except urllib3.exceptions.ProtocolError as error:
        raise OperationError(
            f"the response of {url} was cut off: {_reason(error)}. Repeat the call"
        ) from error
    except urllib3.exceptions.HTTPError as error:
        raise OperationError(f"no answer from {url}: {_reason(error)}. {_ELSEWHERE}") from error


_ELSEWHERE = "Is the stack up, and its host in DNS? Name another gateway with --gateway URL"


def _reason(error: Exception) -> str:
    return " ".join(str(error.args[-1] if error.args else error).split())[:200]


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[str]:
    """The lines of a streamed body, each as soon as it is whole."""
    rest = b""
    # read1 returns what is there; read would wait until its buffer is full.
    while part := response.read1(2**16, decode_content=True):
        *whole, rest = (rest + part).split(b"\n")
        yield from (line.rstrip(b"\r").decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")
