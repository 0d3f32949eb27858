"""`inferplan call MODEL PROMPT`: send a prompt to a model through the gateway and print the answer
as it arrives.
"""

import sys
from typing import Annotated

import typer

from inferplan.client.connection import answer
from inferplan.client.local_gateway.gateway import reachable_contract
from inferplan.client.messages import ANSWER, printable
from inferplan.client.target import caller, check_reachable, target
from inferplan.commands.arguments import (
    Gateway,
    MaxTokens,
    Model,
    Protocol,
    Route,
    StackOption,
    json_option,
)
from inferplan.commands.screen import show_json
from inferplan.errors import RequestError
from inferplan.workspace.workspace import open_workspace


def command(  # noqa: PLR0913, PLR0917 - typer reads the options of a command off its parameters
    model: Model,
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads standard input.")],
    stack: StackOption,
    protocol: Protocol = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            help=(
                "The consumer whose key is used; by default $INFERPLAN_API_KEY, else the model's"
                " first consumer."
            )
        ),
    ] = None,
    gateway: Gateway = None,
    path: Route = None,
    max_tokens: MaxTokens = 256,
    timeout: Annotated[float, typer.Option(min=1, help="Read timeout in seconds.")] = 300,
    as_json: Annotated[
        bool,
        json_option(
            "Print model, consumer, url, and each kind of text (answer, reasoning ...) as JSON at the"
            " end."
        ),
    ] = False,
) -> None:
    """Send PROMPT to MODEL through the gateway of a stack and print the answer as it arrives;
    reasoning and tool calls on standard error.

    Exits with 1 if no answer arrives, or if it is cut.
    """
    workspace = open_workspace(stack)
    contract = reachable_contract(workspace)
    aim = target(
        contract, model, protocol=protocol, gateway=gateway, path=path, stack=workspace.stack
    )
    if (task := aim.endpoint.task) != "generate":
        raise RequestError(
            f"{model} generates no text: its task is {task}. Print code that calls it with:"
            f" inferplan snippet {model} --stack {workspace.typed}"
        )
    if not contract.local:
        check_reachable(workspace, gateway)
    who = caller(workspace, aim.endpoint, consumer)
    text = sys.stdin.read() if prompt == "-" else prompt
    parts = answer(
        aim, who, text, max_tokens=max_tokens, silence_seconds=timeout, stack=workspace.typed
    )
    if as_json:
        texts: dict[str, str] = {ANSWER: ""}
        for part in parts:
            texts[part.kind] = texts.get(part.kind, "") + part.text
        show_json({"model": model, "consumer": who.consumer, "url": aim.url, **texts})
        return
    stream, ended = sys.stdout, True
    try:
        for part in parts:
            # What is not the answer goes to standard error, so that a script reads the answer
            # alone.
            piece, before = printable(part.text), stream
            stream = sys.stdout if part.kind == ANSWER else sys.stderr
            if stream is not before and not ended:
                print(file=before)
            print(piece, end="", flush=True, file=stream)
            ended = piece.endswith("\n") if piece else ended
    finally:
        if not ended:
            print(file=stream, flush=True)
