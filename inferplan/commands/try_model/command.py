"""`inferplan try MODEL --stack S`: the word of the engine about a model, on this computer."""

from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import OptionalModel, StackOption, json_option
from inferplan.commands.screen import note, results, show, show_findings, show_json, table
from inferplan.commands.try_model.changed import tried_changes
from inferplan.commands.try_model.trying import Trying, tried
from inferplan.documents.errors import dotted
from inferplan.errors import OperationError, RequestError
from inferplan.review import findings
from inferplan.trial.verdict import WEIGHTS, Finding
from inferplan.workspace.files import check_targets
from inferplan.workspace.workspace import open_workspace


def command(
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
    against: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="Try each model that differs from REV, on DIR/<model>, instead of one MODEL.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the findings of --against to a file, for inferplan report."),
    ] = None,
    container: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE[=IMAGE]",
            help="Start a container of the plan's image, or of IMAGE, by docker, podman or nerdctl.",
        ),
    ] = None,
    model: OptionalModel = None,
    as_json: Annotated[
        bool, json_option("Print step, state, sentence and place of each finding as JSON.")
    ] = False,
) -> None:
    """Start the engine of MODEL on this computer, with the arguments of the plan and generated
    weights, and ask it questions; exit code 1 if it rejects something (3 with --against).
    """
    workspace = open_workspace(stack)
    if against is not None:
        if model is not None or request is not None:
            raise RequestError("--against tries all changed models. Leave MODEL and --request out")
        check_targets(save=save)
        result = tried_changes(
            workspace, against, weights, lambda text: note([text]), container=container
        )
        content = findings.table(result)
        title = f"{content.title} of {result.stack}"
        show_findings(findings.save(result), title, content, save=save, as_json=as_json)
        raise typer.Exit(0 if result.good else 3)
    if model is None or save is not None:
        raise RequestError(
            "Name a MODEL of the stack without --save, or use --against REV for those that changed"
        )
    trying = tried(
        workspace, model, weights, lambda text: note([text]), request, container=container
    )
    _show(trying, model, as_json=as_json)


def _show(trying: Trying, model: str, *, as_json: bool) -> None:
    """Print the findings. Raises OperationError if the engine rejects something."""
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
    place = trying.place_of(finding)
    return f"{place}: {dotted(finding.path)}" if place else dotted(finding.path)


def _document(trying: Trying, finding: Finding) -> dict[str, str]:
    return {
        "step": finding.step,
        "state": finding.state,
        "sentence": finding.sentence,
        "place": _place(trying, finding) if finding.state == "rejected" else "",
    }
