"""`inferplan rehearse-change BASE HEAD --stack S`: apply HEAD over BASE on a simulated cluster and
report what happens.
"""

from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import json_option
from inferplan.commands.rehearse_change.rehearse_change import rehearse_change
from inferplan.commands.screen import say, show_findings
from inferplan.review import findings
from inferplan.workspace.files import check_targets


def command(
    base: Annotated[
        str, typer.Argument(help="The revision that runs now: a commit, branch or tag.")
    ],
    head: Annotated[str, typer.Argument(help="The revision to change to.")],
    stack: Annotated[str, typer.Option(help="Name of the stack, in both revisions.")],
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write the findings to a file, which inferplan report takes together with events."
        ),
    ] = None,
    timeout: Annotated[
        int, typer.Option(help="Seconds that each revision may take to become ready.", min=10)
    ] = 300,
    as_json: Annotated[
        bool, json_option("Print the findings as JSON, as --save writes them.")
    ] = False,
) -> None:
    """Bring BASE up on a simulated cluster, apply HEAD, and report what happens; exit code 3 unless
    everything becomes ready.
    """
    check_targets(save=save)
    result = rehearse_change(base, head, stack, timeout=timeout, say=say)
    content = findings.table(result)
    show_findings(
        findings.save(result),
        f"{content.title} of {result.stack}",
        content,
        save=save,
        as_json=as_json,
    )
    raise typer.Exit(0 if result.good else 3)
