"""Objects that a simulated cluster accepts and does not try, each with the reason."""

from collections.abc import Iterable

from inferplan.audit.deployed import Change
from inferplan.audit.manifest import Manifest
from inferplan.audit.templates import TABLE, select, templates
from inferplan.documents.text import joined

_GATES = "spec.readinessGates.*.conditionType"
_DEFINITIONS = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def untried(change: Change, hooks: Iterable[Manifest]) -> tuple[str, ...]:
    """The objects of `change` that nothing here acts on, and the `hooks` without pods that were
    left out; rejected ones are findings.
    """
    session = change.session
    reasons: dict[object, str] = {}
    definitions = session.api.request("GET", session.api.resource(*_DEFINITIONS).path())["items"]
    defined = {(each["spec"]["group"], each["spec"]["names"]["kind"]) for each in definitions}
    for key, manifest in change.new.manifests.items():
        if (manifest.group, manifest.kind) in defined:
            acts = key in session.stubs or manifest.kind in session.operated
            reasons[key] = "" if acts else "its operator does not run here"
        else:
            reasons[key] = TABLE["idle"].get(manifest.kind, "")
        if manifest.kind == "Service" and manifest.spec.get("type") == "LoadBalancer":
            reasons[key] = "no load balancer is made here, only its endpoints"
        gates = sorted(
            {str(gate) for _, each in templates(manifest.body) for _, gate in select(each, _GATES)}
        )
        if gates and not reasons[key]:
            reasons[key] = f"{joined(gates, 3)} of its pods is taken as true; nothing here sets it"
    rejected = {each.object for each in change.new.rejections}
    reasons |= {
        each.object: "it is rejected in the old state"
        for each in change.old.rejections
        if each.object not in rejected
    }
    reasons |= {session.key(each): "it was not applied" for each in change.new.skipped}
    reasons |= {
        session.key(each): "a hook of another occasion"
        for each in hooks
        if not any(templates(each.body))
    }
    return tuple(f"{key}: {reason}" for key, reason in reasons.items() if reason)
