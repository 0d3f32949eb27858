"""Roles give no access to running pods."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.rbac import ROLES, grants

WAYS = ("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy")
DEBUGGED = ("pods/ephemeralcontainers",)


def _check(role: Resource, _: Parameters) -> Findings:
    # A web socket begins with a GET, which is all that a kubelet's proxy asks for (CIS Kubernetes 5.1.10).
    for _rule, place in grants(role, ("create", "get"), WAYS):
        yield found(place, "gives access to running pods")
    for _rule, place in grants(role, ("update", "patch"), DEBUGGED):
        yield found(place, "can add containers to running pods")


RULE = Rule(
    id="rbac-disallow-exec",
    title="Roles give no access to running pods",
    severity=Severity.HIGH,
    refs=(
        "CIS Kubernetes 5.1.10",
        "KSV-0053",
        "NSA-CISA: RBAC",
    ),
    why=(
        "Anyone who gets into an engine's pod has its keys, its weights and the prompts of its users. A forwarded port bypasses the gateway"
    ),
    remedy=(
        "remove pods/exec, attach, portforward, proxy, ephemeralcontainers and nodes/proxy; give people temporary access with "
        "the cluster's access tool"
    ),
    subject=ROLES,
    check=_check,
)
