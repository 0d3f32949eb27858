"""Disks and shares behind claims are encrypted."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

DISKS = ("ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com", "kubernetes.io/aws-ebs")
SHARES = ("efs.csi.aws.com",)
IN_TRANSIT = "encryptInTransit"


def _check(given: Resource, _: Parameters) -> Findings:
    if given.short_kind == "StorageClass":
        driver, parameters = given.at("provisioner").text(), given.at("parameters")
        if driver in DISKS and parameters.at("encrypted").value not in (True, "true"):
            yield found(parameters.at("encrypted"), "is not true")
    else:
        driver, parameters = given.at("spec", "csi", "driver").text(), given.at("spec", "csi", "volumeAttributes")
    if driver in SHARES and parameters.at(IN_TRANSIT).value in (False, "false"):
        yield found(parameters.at(IN_TRANSIT), "is false")


RULE = Rule(
    id="volume-require-encryption",
    title="Disks and shares behind claims are encrypted",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EC2.7",
        "CKV_AWS_3",
        "CIS EKS 4.4",
    ),
    why="They hold weights and cached prompts. The driver encrypts only if the StorageClass says so",
    remedy=(
        'set parameters.encrypted: "true" in a StorageClass of EBS, with your own kmsKeyId; keep encryptInTransit of EFS at its'
        ' default, or set it to "true"'
    ),
    subject=objects("kubernetes:storage.k8s.io:StorageClass", "kubernetes:core:PersistentVolume"),
    check=_check,
)
