"""`inferplan call MODEL PROMPT`: puts a prompt to a model through the gateway and prints the answer as it comes."""

from __future__ import annotations

from typing import Annotated

import typer


def command(  # noqa: PLR0913, PLR0917 - typer reads the options of a command off its parameters
    model: Annotated[str, typer.Argument(help="Name of a model of the stack.")],
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads standard input.")],
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of a stack.")] = "",
    protocol: Annotated[str | None, typer.Option(help="By default the best that the model speaks.")] = None,
    consumer: Annotated[
        str | None, typer.Option(help="Whose key opens; by default $INFERPLAN_API_KEY, else the first that the model names.")
    ] = None,
    gateway: Annotated[str | None, typer.Option(help="Address of a gateway elsewhere, such as a forwarded port.")] = None,
    path: Annotated[str | None, typer.Option(help="Path of an application of Ray Serve.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of the answer.")] = 256,
    timeout: Annotated[float, typer.Option(min=1, help="Longest silence of the model, in seconds.")] = 300,
) -> None:
    """Put PROMPT to MODEL through the gateway of a stack and print the answer as it comes."""
    import sys

    from operations.client.connection import answer
    from operations.client.target import caller, refuse_the_unreachable, target
    from operations.contract import contract
    from operations.errors import RequestError
    from operations.workspace import open_workspace

    if not stack:
        raise RequestError(f"--stack is missing; say which one: inferplan call {model} PROMPT --stack NAME")
    workspace = open_workspace(stack)
    aim = target(contract(workspace), model, protocol=protocol, gateway=gateway, path=path, stack=workspace.stack)
    refuse_the_unreachable(workspace, gateway)
    who = caller(workspace, aim.endpoint, consumer)
    asked = sys.stdin.read() if prompt == "-" else prompt
    ended = True
    for piece in answer(aim, who, asked, max_tokens=max_tokens, silence_seconds=timeout, stack=workspace.typed):
        print(piece, end="", flush=True)
        ended = piece.endswith("\n") if piece else ended
    if not ended:
        print()
