"""`inferplan audit NEW --from OLD --nodes FILE`: what happens when a cluster gets these manifests."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from inferplan.audit.deployers import DEPLOYERS
from inferplan.commands.arguments import json_option
from inferplan.commands.audit.audit import Audit, audit
from inferplan.commands.progress import ProgressView
from inferplan.commands.screen import results, say, show_findings
from inferplan.errors import RequestError
from inferplan.review import findings
from inferplan.review.rendering.html import render as as_html
from inferplan.review.rendering.markdown import render as as_markdown
from inferplan.review.report import as_json
from inferplan.workspace.files import check_targets, write

FORMS = {".md": as_markdown, ".html": as_html, ".json": as_json}


_New = Annotated[
    str,
    typer.Argument(
        help="Manifests, a kustomization, a Helm chart, REV:path, or engine events of Pulumi."
    ),
]
_Nodes = Annotated[Path, typer.Option(help="Nodes: a file of inferplan nodes, or a stack file.")]
_Old = Annotated[
    str | None,
    typer.Option("--from", help="The manifests that run now; NEW is applied over them."),
]
_Values = Annotated[
    list[Path] | None,
    typer.Option("--values", "-f", help="Values of the chart; may be repeated."),
]
_OldValues = Annotated[
    list[Path] | None,
    typer.Option(
        "--from-values",
        help="Values of the old chart, by default those of the new one; may be repeated.",
    ),
]
_Deployer = Annotated[
    str | None,
    typer.Option(
        help=(
            f"How NEW is applied: {', '.join(DEPLOYERS)}. The default is helm for charts, else"
            " kubectl."
        )
    ),
]
_Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.")
]
_Release = Annotated[
    str,
    typer.Option(help="Name of the chart's release on both sides; by default the chart's name."),
]
_Existing = Annotated[
    list[Path] | None,
    typer.Option(
        help="Manifests that the cluster has already, such as definitions; may be repeated."
    ),
]
_Drain = Annotated[
    bool, typer.Option("--drain", help="Drain every node afterwards, one after the other.")
]
_Policy = Annotated[
    str,
    typer.Option(
        help=(
            "Which new violations of the policy pack block the change: critical, block (all of"
            " them) or advise (none)."
        )
    ),
]
_Kubernetes = Annotated[
    str | None,
    typer.Option(help="The version to upgrade to, 1.35 to 1.37; its control plane is built once."),
]
_Operator = Annotated[
    list[str] | None,
    typer.Option(
        help="Run an operator (built once): keda=2.21 or envoy-gateway=1.9; may be repeated."
    ),
]
_Timeout = Annotated[int, typer.Option(help="Seconds that one wave may take.", min=5)]
_Save = Annotated[
    Path | None,
    typer.Option(help="Write the findings to a file, which inferplan report takes."),
]
_Report = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Write the report with policies, risks and capacity to a file that ends with .md,"
            " .html or .json."
        )
    ),
]
_Json = Annotated[bool, json_option("Print the findings as JSON, as --save writes them.")]


def command(  # noqa: PLR0913, PLR0917 - one parameter per option of the command line
    new: _New,
    nodes: _Nodes,
    old: _Old = None,
    values: _Values = None,
    old_values: _OldValues = None,
    deployer: _Deployer = None,
    namespace: _Namespace = "default",
    release: _Release = "",
    existing: _Existing = None,
    drain: _Drain = False,
    policy: _Policy = "critical",
    kubernetes: _Kubernetes = None,
    operator: _Operator = None,
    timeout: _Timeout = 120,
    save: _Save = None,
    report: _Report = None,
    json: _Json = False,
) -> None:
    """Apply manifests to a simulated cluster as a deployer would, and report what happens; exit
    code 3 if they must not be applied.
    """
    if report is not None and report.suffix not in FORMS:
        raise RequestError(
            f"--report: {str(report)!r} has no known suffix. Choose from: {', '.join(FORMS)}"
        )
    check_targets(save=save, report=report)
    with ProgressView() as view:
        result = audit(
            new,
            nodes=nodes,
            old=old,
            values=values or (),
            old_values=old_values,
            deployer=deployer,
            namespace=namespace,
            release=release,
            existing=existing or (),
            drain=drain,
            policy=policy,
            kubernetes=kubernetes,
            operators=operator or (),
            timeout=timeout,
            progress=view.step,
            say=say,
        )
    if report is not None:
        write(report, FORMS[report.suffix](result.report).encode())
    content = findings.table(result.findings)
    show_findings(findings.save(result.findings), content.title, content, save=save, as_json=json)
    verdict = _verdict(result, listed=report is not None)
    if json:
        say(verdict)
    else:
        results().print(Text(verdict))
    raise typer.Exit(3 if result.blocked else 0)


def _verdict(result: Audit, *, listed: bool) -> str:
    """The risks unless a report lists them, the policies that block, and the verdict."""
    [stack] = result.report.stacks
    risks = [
        f"risk: {each.what}: {each.kind} {each.name}. {each.consequence}" for each in stack.serious
    ]
    policies = [
        f"blocked by policy {each.policy}: {label}: {detail}"
        for each in stack.policies
        if each.level == "mandatory" and each.evaluated
        for label, detail in each.findings
    ]
    return "\n".join((*(() if listed else risks), *policies, f"verdict: {result.report.verdict}"))
