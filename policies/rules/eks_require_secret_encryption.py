"""Kubernetes Secrets are encrypted with your own KMS key."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(cluster: Resource, _: Parameters) -> Findings:
    if "secrets" not in cluster.at("encryptionConfig", "resources").texts():
        yield found(cluster.at("encryptionConfig", "resources"), "does not include secrets")


RULE = Rule(
    id="eks-require-secret-encryption",
    title="Kubernetes Secrets are encrypted with your own KMS key",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EKS.3",
        "CIS EKS 5.3.1",
        "CKV_AWS_58",
    ),
    why="etcd holds the API keys. A KMS key controls who can read its backups",
    remedy="set encryptionConfig with resources: [secrets] and a KMS key",
    subject=objects("aws:eks:Cluster"),
    check=_check,
)
