"""What a person reads when the gateway or a server answers with a status that is no answer, whichever protocol brought it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations.client.target import Caller, Target


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
