"""No annotation injects configuration into the proxy."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(ingress: Resource, _: Parameters) -> Findings:
    for name, field in ingress.at("metadata", "annotations").entries():
        if "snippet" in name.rpartition("/")[2]:
            yield found(field, "injects configuration into the proxy")


RULE = Rule(
    id="network-disallow-snippets",
    title="No annotation injects configuration into the proxy",
    severity=Severity.CRITICAL,
    refs=(
        "CKV_K8S_152",
        "CKV_K8S_153",
        "CKV_K8S_154",
        "CVE-2025-1974",
    ),
    why="A snippet is code in the one process that sees every key",
    remedy="remove the annotation",
    subject=objects("kubernetes:networking.k8s.io:Ingress"),
    check=_check,
)
