"""The arguments and options that several commands share."""

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any

import typer

from inferplan.errors import OperationError, RequestError
from inferplan.updating.engine import Engine
from inferplan.workspace.project import entries, project_root, stack_files


def _stacks(incomplete: str) -> list[str]:
    """Names for shell completion; none outside a project."""
    with suppress(OperationError):
        return [name for name in stack_files(project_root()) if name.startswith(incomplete)]
    return []


def _entries(section: str) -> Callable[[typer.Context, str], list[str]]:
    """Completes the entries of `section` in the file of the named stack, or of all stacks before
    one is named.
    """

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        with suppress(OperationError):
            return [
                name
                for name in entries(project_root(), section, context.params.get("stack"))
                if name.startswith(incomplete)
            ]
        return []

    return complete


Stack = Annotated[str, typer.Argument(help="Name of a stack.", autocompletion=_stacks)]
StackOption = Annotated[
    str, typer.Option("--stack", "-s", help="Name of a stack.", autocompletion=_stacks)
]
Consumer = Annotated[
    str,
    typer.Argument(help="Name of a consumer of the stack.", autocompletion=_entries("consumers")),
]
EngineName = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help=(
            "pulumi, rehearsal, or auto: the Pulumi CLI, or for a simulated stack without it the"
            " rehearsal."
        ),
    ),
]
KeepNamespace = Annotated[
    bool,
    typer.Option(
        "--keep-namespace",
        help="Leave a namespace that the stack no longer has, with what others put into it.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal."),
]
Refresh = Annotated[
    bool | None,
    typer.Option(
        "--refresh/--no-refresh",
        help="Compare with the live cluster first; the default is the project's options.refresh.",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        help=(
            "Limit the update to this URN; may be repeated, and * stands for any text. Pulumi CLI"
            " only."
        ),
    ),
]
ProfileOption = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        help=(
            "Latency and failures of the stubs in a rehearsal:"
            " ttft=300ms,itl=30ms,tokensPerSecond=2000,failEvery=0 (the default), with MODEL: in"
            " front for one model. May be repeated."
        ),
    ),
]
RealOption = Annotated[
    list[str] | None,
    typer.Option(
        "--real",
        help=(
            "MODEL=DIR: in a rehearsal, run the CPU build of the model's engine with the files in"
            " DIR instead of a stub."
        ),
    ),
]


class NodeKind(StrEnum):
    REAL = "real"


NodeOption = Annotated[
    NodeKind | None,
    typer.Option(
        "--node",
        help=(
            "`real` adds a node with a kubelet to a rehearsal: the gateway's pods, and models of a"
            " pool that fits this machine, really run. Linux and root only."
        ),
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="Read the cluster behind this context of your kubeconfig."),
]
Model = Annotated[
    str, typer.Argument(help="Name of a model of the stack.", autocompletion=_entries("models"))
]
OptionalModel = Annotated[
    str | None,
    typer.Argument(help="Name of a model of the stack.", autocompletion=_entries("models")),
]
Protocol = Annotated[str | None, typer.Option(help="Default: the model's preferred protocol.")]
Gateway = Annotated[
    str | None, typer.Option(help="URL of another gateway, for example a forwarded port.")
]
Route = Annotated[str | None, typer.Option(help="Path of a Ray Serve application.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Maximum tokens of the answer.")]


def json_option(text: str = "Print one JSON document instead of text.") -> Any:
    """The option --json; `text` says which fields the document has."""
    return typer.Option("--json", help=text)


def named_or_all(stacks: list[str] | None) -> list[str]:
    names = stacks or list(stack_files(project_root()))
    if not names:
        raise RequestError("This project has no stack to check. Create stacks/Pulumi.<name>.yaml.")
    return names
