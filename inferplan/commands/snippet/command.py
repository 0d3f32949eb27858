"""`inferplan snippet MODEL`: print code that calls a model or a route through the gateway, without
the key by default.
"""

from typing import Annotated

import typer

from inferplan.client.local_gateway.gateway import reachable_contract
from inferplan.client.target import KEY_VARIABLE, consumer_of, derived, target
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
from inferplan.commands.snippet.snippet import languages, snippet
from inferplan.workspace.workspace import open_workspace

Served = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="One of the models that a Triton server serves. Default: the first that takes a prompt.",
    ),
]


def command(  # noqa: PLR0913, PLR0917 - typer reads the options of a command off its parameters
    model: Model,
    stack: StackOption,
    protocol: Protocol = None,
    language: Annotated[
        str | None,
        typer.Option(help="curl, python, javascript or cpp. Default: curl, python for gRPC."),
    ] = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            help="The consumer whose key --show-key prints; by default the first of the model."
        ),
    ] = None,
    gateway: Gateway = None,
    path: Route = None,
    served: Served = None,
    prompt: Annotated[
        str, typer.Option(help="The prompt in the code, or the sample of each text input.")
    ] = "Say hello.",
    max_tokens: MaxTokens = 256,
    show_key: Annotated[
        bool, typer.Option("--show-key", help="Print the consumer's key before the code.")
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print model, consumer, url, protocol, language, keyVariable, code, and key with"
            " --show-key, as JSON."
        ),
    ] = False,
) -> None:
    """Print code that calls MODEL through the gateway of a stack; it reads the key from
    $INFERPLAN_API_KEY.

    The code sends a prompt, or a sample of each input that a Triton model requires, by the types
    and dims in the stack file.
    """
    workspace = open_workspace(stack)
    spec = workspace.settings.models.get(model)
    aim = target(
        reachable_contract(workspace),
        model,
        protocol=protocol,
        gateway=gateway,
        path=path,
        stack=workspace.stack,
        served=served,
        declared=() if spec is None else spec.tensors,
    )
    who = consumer_of(workspace, aim.endpoint, consumer)
    language = language or languages(aim)[0]
    code = snippet(aim, language, prompt, max_tokens=max_tokens)
    key = derived(workspace, who).key if show_key else None
    if as_json:
        document = {
            "model": model,
            "consumer": who,
            "url": aim.url,
            "protocol": aim.kind,
            "language": language,
            "keyVariable": KEY_VARIABLE,
            "code": code,
        }
        show_json(document | ({} if key is None else {"key": key}))
        return
    shown_by = f"inferplan keys show {who} --stack {stack} --value"
    _print_comments(aim.kind, language, key, shown_by)
    print(code, end="")


def _print_comments(kind: str, language: str, key: str | None, shown_by: str) -> None:
    comment = "//" if language in ("javascript", "cpp") else "#"
    if key is None:
        print(f'{comment} {KEY_VARIABLE} holds the key: export {KEY_VARIABLE}="$({shown_by})"')
    else:
        print(f"{comment} export {KEY_VARIABLE}={key}")
    if kind == "ray-serve":
        print(
            f"{comment} The application defines its input, and the stack file does not declare it:"
            " put it into the empty body."
        )
