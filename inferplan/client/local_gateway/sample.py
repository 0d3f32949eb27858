"""One question to a model of a stack that has just been rehearsed, and its answer."""

import time
from collections.abc import Collection

from inferplan.client.connection import answer
from inferplan.client.local_gateway.gateway import local_contract
from inferplan.client.messages import printable
from inferplan.client.target import caller, target
from inferplan.errors import OperationError
from inferplan.workspace.workspace import Workspace

_QUESTION = "hello"
_SECONDS = 10.0
_SILENCE_SECONDS = 60.0
"""A model on the CPUs of a busy machine needs as long for its first answer."""
_RETRY_SECONDS = 0.2


def ask(workspace: Workspace, silent: Collection[str] = ()) -> tuple[str, str] | None:
    """The command that asks the first model or route with a consumer and a text protocol, and its
    answer; None if no model can be asked. Nothing answers for those of `silent`.
    """
    contract = local_contract(workspace)
    if contract is None:
        return None
    endpoints = {**contract.endpoints, **contract.routes}
    model = next(
        (
            name
            for name, each in endpoints.items()
            if name not in silent and each.consumers and (each.texts or _is_chat(each))
        ),
        None,
    )
    if model is None:
        return None
    aim = target(contract, model, protocol=None, gateway=None, path=None, stack=workspace.stack)
    option = "" if workspace.simulated else f" --gateway {contract.gateway}"
    command = f'$ inferplan call {model} "{_QUESTION}" --stack {workspace.typed}{option}'
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            who = caller(workspace, aim.endpoint, aim.endpoint.consumers[0])
            parts = answer(
                aim,
                who,
                _QUESTION,
                max_tokens=256,
                silence_seconds=_SILENCE_SECONDS,
                stack=workspace.typed,
            )
            return command, printable("".join(part.text for part in parts)).strip()
        except OperationError as error:
            # The stubs see a Ready pod a moment after the update has seen it.
            if time.monotonic() > deadline:
                return command, str(error)
            time.sleep(_RETRY_SECONDS)


def _is_chat(endpoint: object) -> bool:
    return any(each.kind == "openai" for each in getattr(endpoint, "protocols", ()))
