"""One audit: a simulated cluster with the declared nodes, the old manifests, then the new ones as a
deployer applies them.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from inferplan.audit.assumptions import assume
from inferplan.audit.clusters import own_cluster
from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.deployers import deployer
from inferplan.audit.documents import doubled
from inferplan.audit.drains import drained
from inferplan.audit.findings import finding
from inferplan.audit.fleet import RejectedNodeError
from inferplan.audit.judge import announced, judge, ordered, survived
from inferplan.audit.manifest import InputError, Manifest, Object
from inferplan.audit.order import with_order
from inferplan.audit.removals import VERSIONS
from inferplan.audit.rollout import Rollout
from inferplan.audit.session import Session
from inferplan.audit.trials import tried
from inferplan.audit.untried import untried
from inferplan.kube.api import ApiError
from inferplan.progress import Progress
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.components import OPERATORS
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.cluster.making import upgrade
from inferplan.rehearsal.cluster.operators import operator
from inferplan.rehearsal.toolchain.pins import CONTROL_PLANES
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding, Findings


@dataclass(frozen=True, kw_only=True)
class Request:
    """An audit of `new` over `old` (None: on an empty cluster) with `nodes`, applied as the
    deployer called `deployer` applies it.

    `existing` are objects that the cluster has before, `load` pods of others, `limit` the seconds
    that one wave may take. `target` is the version of Kubernetes for which NEW is judged: the
    control plane is upgraded to it before NEW, if it is one of CONTROL_PLANES. `operators` are the
    names of operators that run.
    """

    new: tuple[Manifest, ...]
    old: tuple[Manifest, ...] | None
    nodes: tuple[Object, ...]
    deployer: str = "kubectl"
    namespace: str = "default"
    existing: tuple[Manifest, ...] = ()
    load: tuple[Object, ...] = ()
    drain: bool = False
    limit: float = 120.0
    target: str = VERSIONS[0]
    operators: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    """The objects that a chart has at an installation only, or at an upgrade only."""


def audit(request: Request, progress: Progress, say: Callable[[str], None]) -> Findings:
    """Run one audit on a simulated cluster of its own, which is deleted after it; the caller names
    the sides. Raises InputError, RehearsalError.
    """
    if errors := [
        each
        for side in (request.old or (), request.new)
        for each in doubled(side, request.namespace)
    ]:
        raise InputError(errors)
    began = time.monotonic()
    with contextlib.ExitStack() as clusters, contextlib.ExitStack() as stack:
        cluster = clusters.enter_context(own_cluster(progress))
        session = _session(stack, cluster, request, progress)
        notes = [*_prepare(session, request), *_other_branches(request)]
        how, old = deployer(request.deployer), Deployed()
        if request.old is not None:
            say(f"applying the old state ({len(request.old)} objects)")
            old = Rollout(
                session=session,
                deployer=how,
                manifests=request.old,
                limit=request.limit,
                adopts=True,
            ).run()
        if target := CONTROL_PLANES.get(request.target):
            stack.close()
            say(f"upgrading the control plane from {cluster.version} to {target.version}")
            cluster = upgrade(cluster, target, progress)
            session = _session(stack, cluster, request, progress)
            notes += survived(session, old, request.limit)
        say(f"applying the new state ({len(request.new)} objects) as {how.name} does")
        since = time.monotonic()
        old.attached = frozenset(session.history.attached)
        session.history.attached.clear()
        first = request.old is None
        new = Rollout(
            session=session,
            deployer=how,
            manifests=request.new,
            before=old,
            upgrades=not first,
            limit=request.limit,
        ).run()
        change = Change(
            session=session, old=old, new=new, since=since, first=first, nodes=request.nodes
        )
        findings = [
            *with_order(change, how, judge(change)),
            *announced(change, request.old or (), request.new, request.target),
            *notes,
        ]
        hooks = [
            each
            for each in request.new
            if how.is_hook(each) and session.key(each) not in new.declared and not new.skipped
        ]
        findings += tried(change, hooks, request.limit)
        if request.drain:
            say(
                f"draining {sum(each['kind'] == 'Node' for each in request.nodes)} nodes, one after"
                " the other"
            )
            findings += drained(session, new, request.nodes, request.limit)
        say(f"judged in {time.monotonic() - began:.0f} s")
        return _result(change, findings, untried(change, hooks))


def _other_branches(request: Request) -> list[Finding]:
    """A note on each object that the chart has at the other occasion only."""
    way = "an upgrade" if request.old is None else "a new installation"
    reason = f"the chart decides about it by .Release: {way} was not tried"
    return [finding("branch", each, "", reason, None) for each in request.branches]


def _result(change: Change, findings: list[Finding], untried: tuple[str, ...]) -> Findings:
    new = change.new
    return Findings(
        stack="",
        base="",
        head="",
        outcome="blocked" if any(each.weight == "blocked" for each in findings) else "ready",
        seconds=0.0,  # the same input gives the same report
        order=tuple(map(str, new.declared)),
        replaced=tuple(f"{key}: {reason}" for key, reason in new.recreated.items()),
        pruned=tuple(map(str, new.deleted)),
        untried=untried,
        details=ordered(findings),
    )


def _session(
    stack: contextlib.ExitStack, cluster: Cluster, request: Request, progress: Progress
) -> Session:
    for name in request.operators:
        stack.enter_context(operator(cluster, name, progress))
    operated = {
        kind: OPERATORS[name]["conditions"]
        for name in request.operators
        for kind in OPERATORS[name]["kinds"]
    }
    return stack.enter_context(
        contextlib.closing(
            Session(cluster, request.namespace, installer(cluster, progress), operated)
        )
    )


def _prepare(session: Session, request: Request) -> list[Finding]:
    """Create the nodes and what is assumed to exist. Returns a note on each assumption."""
    for each in request.nodes:
        try:
            session.put(each)
        except ApiError as error:
            raise RejectedNodeError(each, error.message) from error
    session.settle(
        (
            ("v1", Key("Node", "", each["metadata"]["name"]))
            for each in request.nodes
            if each["kind"] == "Node"
        ),
        request.limit,
    )
    notes = assume(
        session, request.new if request.old is None else request.old, request.new, request.existing
    )
    if request.existing:
        result = Rollout(
            session=session,
            deployer=deployer("flux"),
            manifests=request.existing,
            limit=request.limit,
        ).run()
        if result.rejections:
            raise InputError(
                f"{each.place}: --existing: {each.reason.rstrip('.')}. Correct it."
                for each in result.rejections
            )
    for each in request.load:
        session.put(each)
    return notes
