"""Audits manifests that inferplan did not write: on a simulated cluster, by the policy pack, and as
a report on the change.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from inferplan.audit.audit import Request
from inferplan.audit.audit import audit as run_audit
from inferplan.audit.deployers import DEPLOYERS
from inferplan.audit.documents import content_of
from inferplan.audit.fleet import (
    RejectedNodeError,
    load_objects,
    node_objects,
    place_of,
    read_fleet,
)
from inferplan.audit.manifest import InputError
from inferplan.audit.removals import VERSIONS
from inferplan.commands.audit.change_report import change_report
from inferplan.commands.audit.sources import read_side
from inferplan.documents.errors import InvalidStack
from inferplan.errors import RequestError
from inferplan.progress import Progress, silent
from inferplan.rehearsal.cluster.operators import versions
from inferplan.review.findings import Findings
from inferplan.review.report import Report
from inferplan.review.verdict import BLOCKED
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.simulated_nodes import stack_nodes

POLICIES = ("critical", "block", "advise")
_NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The result of `audit`: `findings` of the simulated cluster, and the `report` on the change
    with the policy pack's verdict.
    """

    findings: Findings
    report: Report

    @property
    def blocked(self) -> bool:
        """True if the manifests must not be applied as they are."""
        return not self.findings.good or self.report.rank <= BLOCKED


def audit(  # noqa: PLR0913 - one parameter per option of the command
    new: str | Path,
    *,
    nodes: Path,
    old: str | Path | None = None,
    values: Sequence[Path] = (),
    old_values: Sequence[Path] | None = None,
    deployer: str | None = None,
    namespace: str = "default",
    release: str = "",
    existing: Iterable[Path] = (),
    drain: bool = False,
    policy: str = "critical",
    kubernetes: str | None = None,
    operators: Iterable[str] = (),
    timeout: float = 120,
    progress: Progress = silent,
    say: Callable[[str], None] = lambda _text: None,
) -> Audit:
    """Apply the manifests `new` over `old` on a simulated cluster with `nodes`, as `deployer`
    would, and report what happens.

    `new` and `old` name a file or folder of manifests, a kustomization, a Helm chart (with `values`
    and `old_values`), `REV:path`, or engine events of Pulumi, which have both sides. `nodes` is a
    nodes file (docs/audit.md) or a stack file. By default a chart is applied as Helm does and
    everything else as kubectl does. New violations of critical rules of the policy pack block, with
    `policy` "block" those of all rules, with "advise" none. `drain` drains every node afterwards.
    `kubernetes` is the version to which the control plane is upgraded over OLD, such as 1.37, built
    once. `release` is the name of a chart's release, by default the chart's name; NEW is rendered
    as an upgrade of it if there is an OLD. `operators` are operators that run, such as keda=2.21.
    Nothing of the manifests is executed. Raises RequestError with file and line if something cannot
    be read; nothing was applied then. Raises RehearsalError if no cluster can be started.
    """
    runnable, target = versions(), kubernetes or VERSIONS[0]
    _check("--policy", [policy], POLICIES, "is not known")
    _check("--deployer", [deployer], DEPLOYERS, "is not a deployer")
    _check("--kubernetes", [target], VERSIONS, "cannot be rehearsed")
    _check("--operator", operators, runnable, "cannot run here")
    for option, name in (("--namespace", namespace), ("--release", release or "release")):
        _check_name(option, name)
    of_old = values if old_values is None else old_values
    read = partial(read_side, namespace=namespace, progress=progress)
    with _errors_of(nodes):
        node_list, load = read_nodes(nodes)
        to_new = {"kubernetes": target, "release": release, "upgrade": old is not None}
        after = read(new, values=values, **to_new)
        before = after.before
        if old is not None:
            before = read(old, values=of_old, release=after.release).manifests
        request = Request(
            new=after.manifests,
            old=before,
            nodes=tuple(node_list),
            load=tuple(load),
            deployer=deployer or ("helm" if after.is_chart else "kubectl"),
            namespace=namespace,
            existing=tuple(each for path in existing for each in read(path).manifests),
            drain=drain,
            limit=timeout,
            target=target,
            operators=tuple(dict.fromkeys(runnable[each] for each in operators)),
            branches=after.branches,
        )
        result = run_audit(request, progress, say)
    base = "an empty cluster" if old is None else str(old)
    name = f"those of {nodes.name}"
    record = replace(result, stack=Path(new).name, base=base, head=str(new), nodes=name)
    report = change_report(record, request.old, request.new, request.nodes, policy=policy)
    return Audit(findings=record, report=report)


@contextlib.contextmanager
def _errors_of(nodes: Path) -> Iterator[None]:
    """Raise RequestError for what cannot be read, and for a node of `nodes` that is rejected."""
    try:
        yield
    except RejectedNodeError as error:
        place = place_of(error.body, content_of(nodes), str(nodes))
        raise RequestError(f"{place}: {error}") from error
    except InputError as error:
        raise RequestError("\n".join(error.errors)) from error


def _check_name(option: str, name: str) -> None:
    if not re.fullmatch(_NAMESPACE, name):
        raise RequestError(
            f"{option}: {name!r} is not a name. Use at most 63 lower-case letters, digits and"
            " hyphens."
        )


def _check(option: str, values: Iterable[str | None], allowed: Iterable[str], problem: str) -> None:
    """Raise RequestError for the first of `values` that is not `allowed`; None is the default."""
    if wrong := [each for each in values if each is not None and each not in allowed]:
        raise RequestError(f"{option}: {wrong[0]!r} {problem}. Choose from: {', '.join(allowed)}")


def read_nodes(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The fake nodes with their runtime classes, and pods of others, that a nodes file or a stack
    file declares. Raises InputError.
    """
    content = content_of(path)
    if path.name.startswith("Pulumi."):
        return _stack_nodes(path), []
    fleet = read_fleet(content, str(path))
    return node_objects(fleet), load_objects(fleet)


def _stack_nodes(path: Path) -> list[dict[str, Any]]:
    from inferplan.components.nodes.fake_devices import device_classes_of, fake_device_classes
    from inferplan.components.nodes.fake_nodes import fake_runtime_classes, runtime_classes_of

    try:
        settings = validate(read_stack(path))
    except InvalidStack as error:
        raise InputError(str(error).splitlines()) from error
    pools = settings.node_pools
    return [
        *stack_nodes(settings, dict.fromkeys(pools)),
        *fake_runtime_classes(runtime_classes_of(pools)),
        *fake_device_classes(device_classes_of(pools.values())),
    ]
