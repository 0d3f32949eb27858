"""Objects have a managed-by label."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.resource import Resource
from policies.engine.rule import Edit, Findings, Level, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

LABEL = "app.kubernetes.io/managed-by"


def _check(object_: Resource, _: Parameters) -> Findings:
    if not object_.at("metadata", "labels", LABEL).text():
        yield found(object_.at("metadata", "labels", LABEL), "is not set")


def _remediate(object_: Resource) -> Iterator[Edit]:
    if object_.at("metadata", "labels", LABEL).absent:
        yield Edit(("metadata", "labels", LABEL), value="pulumi")


RULE = Rule(
    id="object-require-managed-by",
    title="Objects have a managed-by label",
    severity=Severity.LOW,
    refs=(
        "inference",
        "Kyverno require-labels",
    ),
    why="The label tells people which program manages an object and would undo a manual change",
    remedy="set metadata.labels[app.kubernetes.io/managed-by], for example to pulumi",
    subject=objects(
        "kubernetes:core:Namespace",
        "kubernetes:core:Service",
        "kubernetes:core:ConfigMap",
        "kubernetes:core:Secret",
        "kubernetes:apps:Deployment",
        "kubernetes:apps:StatefulSet",
        "kubernetes:batch:Job",
        "kubernetes:networking.k8s.io:NetworkPolicy",
        "kubernetes:networking.k8s.io:Ingress",
        "kubernetes:policy:PodDisruptionBudget",
    ),
    check=_check,
    level=Level.ADVISORY,
    remediate=_remediate,
)
