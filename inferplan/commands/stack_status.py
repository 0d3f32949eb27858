"""The state of a stack on its cluster, for the commands that show it."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from inferplan.commands.screen import Row, note, results, show_speed, table
from inferplan.errors import OperationError
from inferplan.planning.speed import forecasts_of
from inferplan.rehearsal.cluster import start, status
from inferplan.status.document import status_json
from inferplan.status.models import ModelRow
from inferplan.status.status import PoolRow, StackState, StackStatus, kubectl_status, stack_status
from inferplan.workspace.project import project_root
from inferplan.workspace.workspace import Workspace

_COLOURS = {
    "ready": "green",
    "complete": "green",
    "active": "green",
    "collected": "green",
    "failed": "red",
}


def read_status(workspace: Workspace, context: str | None) -> StackStatus:
    """The status on the cluster of `context`, else on the simulated cluster, else on the cluster
    that the stack names.
    """
    stack, simulated = workspace.typed, status(workspace.cluster)
    if context is not None:
        return kubectl_status(workspace, context)
    if simulated == "running":
        if not workspace.simulated:
            remove = (
                f"remove this one with: inferplan down {workspace.rehearsal_arguments} --cluster"
            )
            note(
                [
                    f"this is the rehearsal of {workspace.stack} on this machine; read the real one with --context NAME, {remove}"
                ]
            )
        return stack_status(workspace, start(workspace.cluster).get, rehearsed=True)
    if workspace.context is not None and simulated == "absent":
        try:
            return kubectl_status(workspace, workspace.context)
        except OperationError as error:
            raise OperationError(
                f"{stack} has no simulated cluster (inferplan up {workspace.rehearsal_arguments} starts one), and {error}"
            ) from None
    cluster = (
        "no simulated cluster"
        if simulated == "absent"
        else f"a simulated cluster that is {simulated}"
    )
    raise OperationError(
        f"{stack} has {cluster}. Bring it up with: inferplan up {workspace.rehearsal_arguments}, or read a real one with --context"
    )


def show_status(
    status: StackStatus, *, commands: Iterable[tuple[str, str]] = (), as_json: bool = False
) -> None:
    if as_json:
        sys.stdout.write(status_json(status.stack, status.state, status.contract, status.recording))
    else:
        if forecasts := forecasts_of(status.recording.outputs, project_root(), status.stack):
            show_speed(forecasts)
        _print_tables(status.state, results(), commands=commands)


def _print_tables(
    state: StackState, console: Console, *, commands: Iterable[tuple[str, str]]
) -> None:
    """Print the tables of `state`, then each command with its purpose."""
    for title, columns, rows in _tables(state):
        if rows:
            console.print(table(title, *columns, rows=rows))
    for problem in state.gateway:
        console.print(f"gateway: {problem}", highlight=False, markup=False, soft_wrap=True)
    if state.images:
        console.print(state.images, highlight=False, markup=False, soft_wrap=True)
    for command, purpose in commands:
        console.print(Text.assemble("  ", (command, "bold"), f"  # {purpose}"))


def _tables(state: StackState) -> Iterator[tuple[str, tuple[str, ...], list[Row]]]:
    """Title, columns and rows of each table."""
    pools: list[Row] = [
        (each.name, each.accelerator, _ratio(each.nodes_ready, each.nodes), *_accelerators(each))
        for each in state.pools
    ]
    yield "pools", ("pool", "accelerator", "nodes ready", "accelerators used", "free"), pools
    queues: list[Row] = [
        (
            each.name,
            ", ".join(each.pools),
            str(each.admitted),
            str(each.pending),
            _state(each.state),
            each.message,
        )
        for each in state.queues
    ]
    yield "queues", ("queue", "pools", "admitted", "waiting", "state", "message"), queues
    columns: tuple[str, ...] = ("name", "into", "round", "state", "message")
    yield (
        "preheats",
        columns,
        [
            (each.name, each.share, str(each.round), _state(each.state), each.detail)
            for each in state.preheats
        ],
    )
    columns = ("name", "kind", "state", "message")
    yield (
        "engine builds and benchmarks",
        columns,
        [(each.name, each.kind, _state(each.state), each.message) for each in state.jobs],
    )
    yield (
        "models",
        ("model", "engine", "server", "pool", "replicas ready", _endpoint_title(state.models)),
        [row for each in state.models for row in _model(each)],
    )
    columns = ("store", "kind", "location", "state")
    yield (
        "stores",
        columns,
        [(each.name, each.kind, each.place, each.state) for each in state.stores],
    )
    columns = ("consumer", "key versions", "models")
    yield (
        "consumers",
        columns,
        [
            (each.name, ", ".join(map(str, each.keys)), ", ".join(each.models) or "none")
            for each in state.consumers
        ],
    )
    columns = ("route", "requests", "consumers")
    yield (
        "routes",
        columns,
        [
            (each.name, _shares(each.shares), ", ".join(each.consumers) or "none")
            for each in state.routes
        ],
    )
    differences: list[Row] = [
        (name, Text(text, style="yellow")) for name, text in state.differences
    ]
    yield "differences between the cluster and the file", ("object", "difference"), differences


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{share:g}% to {model}" for model, share in shares.items())


def _accelerators(row: PoolRow) -> tuple[str, str]:
    if not row.accelerators:
        return "-", "-"
    return f"{row.accelerators_used}/{row.accelerators}", str(
        row.accelerators - row.accelerators_used
    )


def _state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, "yellow"))


def _endpoint_title(rows: Iterable[ModelRow]) -> str:
    hosts = {urlsplit(row.endpoint).hostname or "" for row in rows}
    # The name of a Service alone resolves in its namespace only.
    return (
        "endpoint, inside the namespace" if any("." not in each for each in hosts) else "endpoint"
    )


def _model(row: ModelRow) -> Iterator[Row]:
    ratio = _ratio(row.ready, row.wanted)
    yield (
        row.name,
        row.engine,
        row.server or "-",
        row.pool,
        ratio.append(f" of {row.range}") if row.range else ratio,
        row.endpoint,
    )
    if row.reason:
        yield "", "", "", "", "", Text(row.reason, style="yellow")


def _ratio(part: int, whole: int) -> Text:
    return Text(f"{part}/{whole}", style="green" if part >= whole else "yellow")
