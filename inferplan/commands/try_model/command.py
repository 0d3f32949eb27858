"""`inferplan try MODEL --stack S`: the word of the engine about a model, on this computer."""

from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import Model, StackOption, json_option
from inferplan.commands.screen import note, results, show, show_json, table
from inferplan.commands.try_model.trying import Trying, tried
from inferplan.documents.errors import dotted
from inferplan.errors import OperationError
from inferplan.trial.verdict import WEIGHTS, Finding
from inferplan.workspace.workspace import open_workspace


def command(
    model: Model,
    stack: StackOption,
    weights: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The directory with the files that the engine reads (inferplan docs trial).",
        ),
    ],
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A request that your clients send, as JSON with its path and body.",
        ),
    ] = None,
    as_json: Annotated[
        bool, json_option("Print step, state, sentence and place of each finding as JSON.")
    ] = False,
) -> None:
    """Start the engine of MODEL on this computer, with the arguments of the plan and generated
    weights, and ask it questions; exit code 1 if it rejects something.
    """
    trying = tried(
        open_workspace(stack), model, weights, note_each=lambda text: note([text]), request=request
    )
    rejected = [each for each in trying.findings if each.state == "rejected"]
    if as_json:
        show_json([_document(trying, each) for each in trying.findings])
    else:
        rows = [(each.step, each.state, each.sentence) for each in trying.findings]
        results().print(
            table(
                f"trial of {model} by {trying.engine}",
                "step",
                "state",
                "the engine says",
                rows=rows,
            )
        )
        show(f"Not judged: {trying.unjudged}.")
    if rejected:
        lines = (f"{_place(trying, each)}: {_said(trying, each)}" for each in rejected)
        raise OperationError("\n".join((*lines, "Change these settings, and try again.")))


def _said(trying: Trying, finding: Finding) -> str:
    speaker = "" if finding.step == WEIGHTS else f" of {trying.engine}"
    return f"{finding.step}{speaker}: {finding.sentence}"


def _place(trying: Trying, finding: Finding) -> str:
    position = trying.file.locate(finding.path)
    where = f"{trying.file.shown_path}:{position.line}:{position.column}: " if position else ""
    return where + dotted(finding.path)


def _document(trying: Trying, finding: Finding) -> dict[str, str]:
    return {
        "step": finding.step,
        "state": finding.state,
        "sentence": finding.sentence,
        "place": _place(trying, finding) if finding.state == "rejected" else "",
    }
