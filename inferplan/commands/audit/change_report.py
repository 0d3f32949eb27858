"""The report on audited manifests, as for a pull request: risks of the change, capacity, the policy
pack, and what the cluster did.
"""

from collections.abc import Iterable
from dataclasses import replace

from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.secrets import veiled
from inferplan.planning.policy_check import stack_of
from inferplan.planning.violation_formats import packs, policy_events, read_rule
from inferplan.policies.engine.report import Report as PolicyReport
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.rule import Level, State
from inferplan.policies.engine.settings import Settings, today
from inferplan.pulumi_engine.plan.events import events_of
from inferplan.pulumi_engine.plan.states import states_of
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.recording import Recording, Registration, make_urn
from inferplan.pulumi_engine.values import Secret
from inferplan.review.findings import Findings
from inferplan.review.reading.reader import preview_of
from inferplan.review.report import Report, make_report

_PROJECT = "audit"

# These rules are about Pulumi programs.
_LEVELS = {
    "stack-disallow-several-providers": Level.DISABLED,
    "stack-disallow-unseen-objects": Level.DISABLED,
}
_UNREADABLE = ".envFrom"
"""Most charts take variables from ConfigMaps and Secrets, which no rule can read."""


def change_report(
    findings: Findings,
    old: tuple[Manifest, ...] | None,
    new: tuple[Manifest, ...],
    nodes: Iterable[Object],
    *,
    policy: str,
) -> Report:
    """The report on `new` over `old`; violations are advice unless `policy` is "block", or
    "critical" and the rule is.

    Objects of `old` that the deployer leaves behind are not deleted, and take capacity. A rule of
    the pack that a kind of object broke in `old` too, and a rule that cannot be
    evaluated, do not block the change.
    """
    machines = [each for each in nodes if each["kind"] == "Node"]
    left = {each.object for each in findings.details if each.code == "left"}
    stays = [each for each in old or () if any(_is(each, name) for name in left)]
    hidden = [[veiled(each.body, Secret) for each in side] for side in (old or (), (*new, *stays))]
    before, after = (_recording(findings.stack, [*machines, *side]) for side in hidden)
    plan = make_plan(after, None if old is None else states_of(before))
    violations = _blocking(
        _check(findings.stack, new),
        None if old is None else _check(findings.stack, old),
        policy=policy,
    )
    events = events_of(
        plan, against=findings.base, judged=policy_events(violations), packs=packs(violations)
    )
    preview = preview_of(events, source=findings.stack)
    return make_report([preview], read_rule=read_rule, rehearsals=[findings])


def _is(manifest: Manifest, name: str) -> bool:
    """True if `name` is that of `manifest` in a finding: kind, namespace and name. The namespace of
    the audit, which `name` has, may be missing in the file.
    """
    kind, _, place = name.partition(" ")
    namespace, _, called = place.rpartition("/")
    return (kind, called) == (manifest.kind, manifest.name) and (
        manifest.namespace in ("", namespace)
    )


def _check(name: str, manifests: tuple[Manifest, ...]) -> PolicyReport:
    hidden = [veiled(each.body, Secret) for each in manifests]
    return check_stack(stack_of(_recording(name, hidden)), Settings(today=today(), levels=_LEVELS))


def _blocking(after: PolicyReport, before: PolicyReport | None, *, policy: str) -> PolicyReport:
    """`after` with the violations that do not block as advice; those of `before` are compared by
    rule and kind, because names change.
    """
    known = (
        {(each.rule.id, each.resource.partition("/")[0]) for each in before.violations}
        if before
        else set()
    )
    new = tuple(
        each
        for each in after.violations
        if policy in ("block", each.rule.severity)
        and each.state is State.VIOLATION
        and _UNREADABLE not in each.path
        and (each.rule.id, each.resource.partition("/")[0]) not in known
    )
    return replace(
        after,
        violations=new,
        advice=(*after.advice, *(each for each in after.violations if each not in new)),
    )


def _recording(stack: str, bodies: Iterable[Object]) -> Recording:
    return Recording(
        project=_PROJECT,
        stack=stack,
        registrations=tuple(_registration(stack, each) for each in bodies),
    )


def _registration(stack: str, body: Object) -> Registration:
    group, _, version = str(body["apiVersion"]).rpartition("/")
    type_ = f"kubernetes:{group or 'core'}/{version}:{body['kind']}"
    metadata = body["metadata"]
    name = (
        f"{metadata['namespace']}/{metadata['name']}"
        if metadata.get("namespace")
        else metadata["name"]
    )
    urn = make_urn(stack=stack, project=_PROJECT, parent="", type_=type_, name=name)
    return Registration(urn=urn, type=type_, custom=True, inputs=body, name=name)
