"""`inferplan logs MODEL`: what the pods of a model log, read through kubectl."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    model: Annotated[str, typer.Argument(help="Name of a model of the stack.")],
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of a stack.")] = "",
    context: Annotated[str | None, typer.Option("--context", help="Read the cluster of this context of your kubeconfig.")] = None,
    tail: Annotated[int, typer.Option("--tail", min=1, help="Number of lines per container.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the last lines that each container of MODEL logged, its preheat and engine build included."""
    import json
    from dataclasses import asdict

    from cli.screen import progress
    from operations.errors import RequestError
    from operations.logs import read_logs
    from operations.workspace import open_workspace

    if not stack:
        raise RequestError(f"Missing option --stack. Name the stack: inferplan logs {model} --stack NAME")
    logs = read_logs(open_workspace(stack), model, context=context, lines=tail)
    if as_json:
        print(json.dumps([asdict(each) for each in logs], indent=2))
        return
    for each in logs:
        progress().print(f"{each.pod} {each.container}", style="bold", highlight=False, markup=False)
        if each.problem:
            progress().print(f"  {each.problem}", highlight=False, markup=False, soft_wrap=True)
        if each.text:
            print(each.text)
