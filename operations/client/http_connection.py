"""Puts one prompt to a model through its gateway over HTTP and yields the answer as it comes.

Every way in which that can fail ends as a OperationError that names the address and what to do; none of them quotes the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from operations.client.messages import AnswerError, refusal, request_of, text_of
from operations.client.refusals import refused
from operations.errors import OperationError

if TYPE_CHECKING:
    import urllib3

    from operations.client.target import Caller, Target

_CONNECT_SECONDS = 10


def answer(target: Target, who: Caller, prompt: str, *, max_tokens: int, silence_seconds: float, stack: str) -> Iterator[str]:
    """The pieces of the answer to `prompt`. Gives up after `silence_seconds` without a byte. Raises OperationError."""
    import urllib3

    asked = request_of(target, prompt, max_tokens)
    headers = {"Authorization": f"Bearer {who.key}", "Content-Type": "application/json"}
    patience = urllib3.Timeout(connect=_CONNECT_SECONDS, read=silence_seconds)
    with urllib3.PoolManager(timeout=patience, retries=False) as pool, _explained(asked.url, silence_seconds):
        response = pool.request("POST", asked.url, body=json.dumps(asked.body).encode(), headers=headers, preload_content=False)
        if response.status != 200:
            raise OperationError(refused(response.status, refusal(_text(response)), target, who, stack))
        try:
            yield from text_of(target, _lines(response))
        except AnswerError as failure:
            raise OperationError(f"{target.model} {failure}") from failure


@contextmanager
def _explained(url: str, silence_seconds: float) -> Iterator[None]:
    import urllib3

    try:
        yield
    except urllib3.exceptions.ReadTimeoutError as silent:
        raise OperationError(f"{url} was silent for {silence_seconds:g} s; wait longer with --timeout") from silent
    except (urllib3.exceptions.NameResolutionError, urllib3.exceptions.LocationParseError) as unknown:
        raise OperationError(f"the name in {url} is not known here; {_ELSEWHERE}") from unknown
    except urllib3.exceptions.SSLError as broken:
        raise OperationError(f"the certificate of {url} is not trusted here: {_reason(broken)}") from broken
    except urllib3.exceptions.ProtocolError as cut:
        raise OperationError(f"the answer of {url} broke off: {_reason(cut)}; ask again") from cut
    except urllib3.exceptions.HTTPError as unreachable:
        raise OperationError(f"nothing answers at {url}: {_reason(unreachable)}; {_ELSEWHERE}") from unreachable


_ELSEWHERE = "is the stack up, and its host in DNS? A gateway elsewhere is named with --gateway URL"


def _reason(error: Exception) -> str:
    return " ".join(str(error.args[-1] if error.args else error).split())[:200]


def _text(response: urllib3.BaseHTTPResponse) -> str:
    return response.data.decode("utf-8", "replace")


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[str]:
    """The lines of a streamed body, each as soon as it is whole."""
    rest = b""
    # read1 returns what is there; read would wait until its buffer is full.
    while part := response.read1(2**16, decode_content=True):
        *whole, rest = (rest + part).split(b"\n")
        yield from (line.rstrip(b"\r").decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")
