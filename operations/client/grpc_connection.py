"""Sends one prompt to a model over KServe's gRPC service, with the key and the model's name as metadata, and yields the answer."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from operations.client.messages import denial_error
from operations.errors import OperationError

if TYPE_CHECKING:
    from operations.client.target import Caller, Target

# gRPC's codes for the HTTP statuses of the gateway (components/gateway/answers.py).
_STATUSES = {
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "UNIMPLEMENTED": 404,
    "RESOURCE_EXHAUSTED": 429,
    "DEADLINE_EXCEEDED": 504,
}


def answer(target: Target, who: Caller, prompt: str, *, max_tokens: int, silence_seconds: float, stack: str) -> Iterator[str]:
    """The pieces of the answer to `prompt`. Raises OperationError."""
    import tritonclient.grpc as triton

    text = target.text
    if text is None:
        raise TypeError(f"{target.model}: gRPC needs a model of named tensors")
    inputs = [_tensor(triton, text.input, "BYTES", text.shape, prompt.encode())]
    if text.stream is not None:
        inputs.append(_tensor(triton, text.stream, "BOOL", text.shape, True))
    if text.tokens is not None:
        inputs.append(_tensor(triton, text.tokens, text.tokens_type, text.shape, max_tokens))
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client = triton.InferenceServerClient(target.url, ssl=target.url.endswith(":443"))
    metadata = {"x-api-key": who.key, "x-model": target.model}
    try:
        client.start_stream(lambda result, error: answers.put((result, error)), headers=metadata)
        # Triton's vllm backend takes sampling as parameters of the request; models that have an input for it read none.
        bound = {"max_tokens": max_tokens} if text.tokens is None else None
        # A stream that was denied at once accepts no request; the reason is among the answers.
        with contextlib.suppress(triton.InferenceServerException):
            client.async_stream_infer(target.name, inputs, enable_empty_final_response=True, parameters=bound)
        while True:
            result, error = _next(answers, target, silence_seconds)
            if error is not None:
                raise _error(error, target, who, stack)
            response = result.get_response()
            if response.outputs:
                yield from (piece.decode("utf-8", "replace") for piece in result.as_numpy(text.output).reshape(-1))
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


def _next(answers: queue.Queue[tuple[Any, Any]], target: Target, silence_seconds: float) -> tuple[Any, Any]:
    try:
        return answers.get(timeout=silence_seconds)
    except queue.Empty:
        raise OperationError(f"{target.url} sent nothing for {silence_seconds:g} s. Wait longer with --timeout") from None


def _error(error: Any, target: Target, who: Caller, stack: str) -> OperationError:
    # A server that fails after the stream began sends a message and no status.
    code = (error.status() or "").removeprefix("StatusCode.")
    message = " ".join(str(error.message()).split())[:300]
    if code == "UNAVAILABLE":
        return OperationError(f"no answer from {target.url}: {message}. Is the stack up? Name another gateway with --gateway HOST:PORT")
    return denial_error(_STATUSES.get(code, 400), message, target, who, stack)
