"""`inferplan monitoring STACK --to DIR`: the rules and dashboards of a stack as files."""

from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import Stack
from inferplan.commands.monitoring.files import monitoring_files, write_files
from inferplan.workspace.project import short_path
from inferplan.workspace.workspace import open_workspace


def command(
    stack: Stack,
    to: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="DIR",
            help="The folder for the files; it is created if it does not exist.",
        ),
    ],
) -> None:
    """Write recording rules, alerts and dashboards of STACK as files, for Prometheus and Grafana
    without operator and sidecar.
    """
    files = monitoring_files(open_workspace(stack))
    write_files(files, to)
    print("\n".join(short_path(to / name) for name in files))
