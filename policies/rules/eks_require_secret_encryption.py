"""Kubernetes Secrets are encrypted with a key of yours."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(cluster: Resource, _: Parameters) -> Findings:
    if "secrets" not in cluster.at("encryptionConfig", "resources").texts():
        yield found(cluster.at("encryptionConfig", "resources"), "does not hold secrets")


RULE = Rule(
    id="eks-require-secret-encryption",
    title="Kubernetes Secrets are encrypted with a key of yours",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EKS.3",
        "CIS EKS 5.3.1",
        "CKV_AWS_58",
    ),
    why="API keys lie in etcd; a KMS key decides who reads its backups",
    remedy="set encryptionConfig with resources [secrets] and a KMS key",
    subject=objects("aws:eks:Cluster"),
    check=_check,
)
