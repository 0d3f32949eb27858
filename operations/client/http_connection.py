"""Sends one prompt to a model through its gateway over HTTP and yields the answer as it arrives.

Every failure ends as an OperationError that names the address and the remedy; none of them quotes the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from operations.client.messages import AnswerError, denial_error, error_text, request_of, text_of
from operations.errors import OperationError

if TYPE_CHECKING:
    import urllib3

    from operations.client.target import Caller, Target

_CONNECT_SECONDS = 10


def answer(target: Target, who: Caller, prompt: str, *, max_tokens: int, silence_seconds: float, stack: str) -> Iterator[str]:
    """The pieces of the answer to `prompt`. Gives up after `silence_seconds` without a byte. Raises OperationError."""
    import urllib3

    request = request_of(target, prompt, max_tokens)
    headers = {"Authorization": f"Bearer {who.key}", "Content-Type": "application/json"}
    timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=silence_seconds)
    with urllib3.PoolManager(timeout=timeout, retries=False) as pool, _explained(request.url, silence_seconds):
        response = pool.request("POST", request.url, body=json.dumps(request.body).encode(), headers=headers, preload_content=False)
        if response.status != 200:
            message = error_text(response.data.decode("utf-8", "replace"))
            raise denial_error(response.status, message, target, who, stack)
        try:
            yield from text_of(target, _lines(response))
        except AnswerError as failure:
            raise OperationError(f"{target.model} {failure}") from failure


@contextmanager
def _explained(url: str, silence_seconds: float) -> Iterator[None]:
    import urllib3

    try:
        yield
    except urllib3.exceptions.ReadTimeoutError as error:
        raise OperationError(f"{url} sent nothing for {silence_seconds:g} s. Wait longer with --timeout") from error
    except (urllib3.exceptions.NameResolutionError, urllib3.exceptions.LocationParseError) as error:
        raise OperationError(f"the name in {url} cannot be resolved. {_ELSEWHERE}") from error
    except urllib3.exceptions.SSLError as error:
        raise OperationError(f"the certificate of {url} is not trusted on this machine: {_reason(error)}") from error
    except urllib3.exceptions.ProtocolError as error:
        raise OperationError(f"the answer of {url} broke off: {_reason(error)}. Repeat the call") from error
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
