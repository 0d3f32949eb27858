"""Puts one prompt to a model through its gateway and yields the answer as it comes, over HTTP or gRPC.

Every way in which that can fail ends as a CommandError that names the address and what to do; none of them quotes the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.client.messages import AnswerError, refusal, request_of, text_of
from cli.errors import CommandError

if TYPE_CHECKING:
    import urllib3

    from cli.client.target import Caller, Target

_CONNECT_SECONDS = 10


def answer(target: Target, who: Caller, prompt: str, *, max_tokens: int, silence_seconds: float, stack: str) -> Iterator[str]:
    """The pieces of the answer to `prompt`. Gives up after `silence_seconds` without a byte. Raises CommandError."""
    if target.kind == "kserve-v2-grpc":
        from cli.client.grpc_connection import answer as grpc_answer

        yield from grpc_answer(target, who, prompt, max_tokens=max_tokens, silence_seconds=silence_seconds, stack=stack)
        return
    import urllib3

    asked = request_of(target, prompt, max_tokens)
    headers = {"Authorization": f"Bearer {who.key}", "Content-Type": "application/json"}
    patience = urllib3.Timeout(connect=_CONNECT_SECONDS, read=silence_seconds)
    with urllib3.PoolManager(timeout=patience, retries=False) as pool, _explained(asked.url, silence_seconds):
        response = pool.request("POST", asked.url, body=json.dumps(asked.body).encode(), headers=headers, preload_content=False)
        if response.status != 200:
            raise CommandError(refused(response.status, refusal(_text(response)), target, who, stack), exit_code=1)
        try:
            yield from text_of(target, _lines(response))
        except AnswerError as failure:
            raise CommandError(f"{target.model} {failure}", exit_code=1) from failure


def refused(status: int, said: str, target: Target, who: Caller, stack: str) -> str:
    """What to tell about an answer that is none, by its HTTP status."""
    match status:
        case 401:
            remedy = f"the key of {who.consumer} is not valid at this gateway; has the stack been updated since the key changed: inferplan up {stack}"
        case 403:
            remedy = f"add {who.consumer} to models.{target.model}.consumers and run: inferplan up {stack}"
        case 404:
            remedy = f"the gateway at {target.url} serves no such call; is it the one of {stack}, and up to date: inferplan up {stack}"
        case 429:
            remedy = f"{who.consumer} is past its limits (consumers.{who.consumer}.limits); wait, or raise them"
        case 502 | 503 | 504:
            remedy = f"no server of {target.model} is ready: inferplan status {stack}"
        case _:
            remedy = f"the server of {target.model} refuses the request itself"
    return f"{target.model} answers {status}: {said}; {remedy}"


@contextmanager
def _explained(url: str, silence_seconds: float) -> Iterator[None]:
    import urllib3

    try:
        yield
    except urllib3.exceptions.ReadTimeoutError as silent:
        raise CommandError(f"{url} was silent for {silence_seconds:g} s; wait longer with --timeout", exit_code=1) from silent
    except (urllib3.exceptions.NameResolutionError, urllib3.exceptions.LocationParseError) as unknown:
        raise CommandError(f"the name in {url} is not known here; {_ELSEWHERE}", exit_code=1) from unknown
    except urllib3.exceptions.SSLError as broken:
        raise CommandError(f"the certificate of {url} is not trusted here: {_reason(broken)}", exit_code=1) from broken
    except urllib3.exceptions.ProtocolError as cut:
        raise CommandError(f"the answer of {url} broke off: {_reason(cut)}; ask again", exit_code=1) from cut
    except urllib3.exceptions.HTTPError as unreachable:
        raise CommandError(f"nothing answers at {url}: {_reason(unreachable)}; {_ELSEWHERE}", exit_code=1) from unreachable


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
