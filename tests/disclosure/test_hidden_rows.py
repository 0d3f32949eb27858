"""Each row of the tables that reads a value finds its risk by the real value, also where the report
hides that value.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from inferplan.kube.disclosure.texts import placeholder
from inferplan.kube.paths import mapped
from inferplan.review.reading import disclosed
from inferplan.review.reading.reader import read_bytes
from inferplan.review.rendering import html, markdown
from inferplan.review.report import as_json, make_report
from inferplan.review.steps.kinds import PropertyRule, rules_for
from inferplan.tables import table
from tests.review_streams import facts, step, stream

CANARY = "q7ZkVtX2mWbR9pLd"
DEPLOYMENT, JOB = "kubernetes:apps/v1:Deployment", "kubernetes:batch/v1:Job"
SCALED, POOL = "kubernetes:keda.sh/v1alpha1:ScaledObject", "kubernetes:karpenter.sh/v1:NodePool"
POD = ("spec", "template", "spec")
SERVER = (*POD, "containers", 0)
WORKERS = ("spec", "workerGroupSpecs", 0)
# Type, path, and the value before and after. A canary is in each value whose pattern leaves room.
CASES: tuple[tuple[str, tuple[str | int, ...], Any, Any], ...] = (
    ("kubernetes:core/v1:Service", ("spec", "type"), "ClusterIP", "LoadBalancer"),
    (DEPLOYMENT, (*POD, "hostNetwork"), "false", "true"),
    ("aws:ec2/securityGroupRule:SecurityGroupRule", ("cidrBlocks",), [CANARY], [f"{CANARY} ::/0"]),
    ("aws:ec2/securityGroupRule:SecurityGroupRule", ("type",), CANARY, "ingress"),
    (DEPLOYMENT, (*SERVER, "args"), ["--model", "s3://a"], ["--model", f"s3://{CANARY}"]),
    (DEPLOYMENT, (*SERVER, "volumeMounts", 0, "readOnly"), "true", CANARY),
    (DEPLOYMENT, (*SERVER, "securityContext", "readOnlyRootFilesystem"), "true", CANARY),
    ("aws:s3/bucketVersioning:BucketVersioning", ("versioningConfiguration", "status"), CANARY, f"Suspended{CANARY}"),
    (POOL, ("spec", "disruption", "consolidationPolicy"), CANARY, f"{CANARY}Underutilized"),
    (POOL, (*POD, "expireAfter"), CANARY, "8h"),
    (DEPLOYMENT, ("spec", "replicas"), "2", "0"),
    (DEPLOYMENT, ("spec", "replicas"), "4", "2"),
    ("kubernetes:ray.io/v1:RayService", ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "replicas"), "2", "0"),
    ("kubernetes:ray.io/v1:RayService", ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "replicas"), "4", "2"),
    (JOB, (*SERVER, "env", 0, "value"), f'{{"allowPickle": "{CANARY}"}}', '{"allowPickle": "true"}'),
    (JOB, (*SERVER, "env", 0, "value"), '{"allowPickle": []}', f'{{"allowPickle": ["{CANARY}"]}}'),
    ("kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", ("roleRef", "name"), "view", "cluster-admin"),
    ("kubernetes:scheduling.k8s.io/v1:PriorityClass", ("globalDefault",), CANARY, "true"),
    ("kubernetes:networking.k8s.io/v1:NetworkPolicy", ("spec", "ingress", 0, "from", 0, "ipBlock", "cidr"), "10.0.0.0/8", "0.0.0.0/0"),
    (DEPLOYMENT, (*SERVER, "env", 0, "value"), CANARY, f"{CANARY}=debug"),
    ("aws:s3/bucket:Bucket", ("forceDestroy",), CANARY, "true"),
    ("aws:rds/instance:Instance", ("deletionProtection",), "true", CANARY),
    ("aws:kms/key:Key", ("enableKeyRotation",), "true", CANARY),
    ("aws:rds/instance:Instance", ("publiclyAccessible",), CANARY, "true"),
    ("aws:ecr/repository:Repository", ("imageTagMutability",), CANARY, f"MUTABLE{CANARY}"),
    ("kubernetes:storage.k8s.io/v1:StorageClass", ("reclaimPolicy",), "Retain", "Delete"),
    ("kubernetes:admissionregistration.k8s.io/v1:ValidatingWebhookConfiguration", ("webhooks", 0, "failurePolicy"), "Fail", "Ignore"),
    (JOB, ("spec", "suspend"), CANARY, "true"),
    ("kubernetes:kyverno.io/v1:ClusterPolicy", ("spec", "validationFailureAction"), f"Enforce{CANARY}", CANARY),
    ("kubernetes:security.istio.io/v1:PeerAuthentication", ("spec", "mtls", "mode"), "STRICT", CANARY),
    ("kubernetes:apps/v1:StatefulSet", ("spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"), "Retain", "Delete"),
    (DEPLOYMENT, (*SERVER, "args"), [f"--api-key={CANARY}", "--port=1"], ["--port=1"]),
    (DEPLOYMENT, ("spec", "replicas"), "2", "20"),
    ("kubernetes:core/v1:ResourceQuota", ("spec", "hard", "pods"), "8", "80"),
    ("kubernetes:core/v1:PersistentVolumeClaim", ("spec", "resources", "requests", "storage"), "1Gi", "5Ti"),
    ("aws:eks/nodeGroup:NodeGroup", ("capacityType",), CANARY, "ON_DEMAND"),
    ("aws:eks/nodeGroup:NodeGroup", ("capacityType",), CANARY, "SPOT"),
)  # fmt: skip
HARMLESS = (
    ("kubernetes:core/v1:Secret", ("metadata", "name"), "chat-1a2b3c4d5e", "chat-9f8e7d6c5b"),
    (SCALED, ("spec", "triggers", 0, "metadata", "threshold"), "40", "20"),
    ("kubernetes:batch/v1:CronJob", ("spec", "schedule"), "0 3 * * *", "30 4 * * *"),
    (DEPLOYMENT, ("spec", "revisionHistoryLimit"), CANARY, f"3{CANARY}"),
    (DEPLOYMENT, (*SERVER, "args"), ["--lora-modules"], ["--lora-modules", f"{CANARY}=/models/{CANARY}"]),
    ("aws:s3/bucketVersioning:BucketVersioning", ("versioningConfiguration", "status"), CANARY, "Enabled"),
    ("aws:kms/key:Key", ("enableKeyRotation",), CANARY, "true"),
    ("aws:efs/backupPolicy:BackupPolicy", ("backupPolicy", "status"), CANARY, "ENABLED"),
)  # fmt: skip


def hides_everything(value: Any, *_types: str, **_before: Any) -> Any:
    """A disclosure that knows no public value at all."""
    return mapped(
        value, lambda each: placeholder(crc32(each.encode())) if isinstance(each, str) else each
    )


def inputs_of(type_: str, path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    named = {"name": "LOG_LEVEL"} if "containers" in path else {}
    for part in reversed(path[1:]):
        value = {part: value} if isinstance(part, str) else [{**named, **value}]
    kind = {"type": "ingress"} if "Rule" in type_ else {}
    return {"metadata": {"name": "x"}, **kind, str(path[0]): value}


def report_on(case: tuple[str, tuple[str | int, ...], Any, Any]):
    type_, path, old, new = case
    before, after = (inputs_of(type_, path, each) for each in (old, new))
    report = make_report([read_bytes(stream(step("update", type_, "x", before, after)))])
    surfaces = (markdown.render(report), html.render(report), as_json(report))
    pieces = {CANARY[at : at + 8] for at in range(len(CANARY) - 7)}
    assert not [each for each in pieces for text in surfaces if each in text]
    return report.stacks[0].risks


def rows_of(case: tuple[str, tuple[str | int, ...], Any, Any]) -> list[PropertyRule]:
    """The rows that read the value of a case."""
    found = {each.what for each in report_on(case)}
    return [
        each
        for each in rules_for(case[0])
        if (each.new or each.old or each.pick or each.factor) and each.what in found
    ]


@pytest.fixture(params=["disclosed", "all hidden"], autouse=True)
def disclosure(request, monkeypatch):
    if request.param == "all hidden":
        monkeypatch.setattr(disclosed, "disclosed", hides_everything)


@pytest.mark.parametrize("case", CASES, ids=lambda each: f"{each[0]} {each[1][-1]} {each[3]}")
def test_a_row_reads_the_value_that_the_report_hides(case):
    assert rows_of(case)


@pytest.mark.parametrize(
    ("fact", "old", "new", "expected"),
    [
        ("scheme", "https", "http", "no longer uses TLS"),
        ("scheme", "http", "https", "requires TLS"),
    ],
)
def test_a_row_of_facts_reads_the_value_that_the_report_hides(fact, old, new, expected):
    sides = ({"gateway": {"gateway": {"host": "a.example", fact: each}}} for each in (old, new))
    report = make_report([read_bytes(stream(facts(*sides)))])
    assert expected in {each.what for each in report.stacks[0].risks}


def test_every_row_that_reads_a_value_has_a_case():
    rows = [
        f"{each['type']} {each['path']} {each['what']}"
        for each in table("review/data/properties.toml")["property"]
        if {"to", "from", "pick", "factor"} & each.keys()
    ]
    used = {
        f"{each.type.pattern} {each.path.pattern} {each.what}"
        for case in CASES
        for each in rows_of(case)
    }
    assert [each for each in rows if each not in used] == []
    assert len(HARMLESS) == sum(
        bool({"to", "from", "pick", "factor"} & each.keys())
        for each in table("review/data/harmless.toml")["harmless"]
    )


@pytest.mark.parametrize("case", HARMLESS, ids=lambda each: f"{each[0]} {each[1][-1]}")
def test_a_harmless_change_stays_calm_where_the_report_hides_it(case):
    assert not [each.what for each in report_on(case) if each.weight < 2]


def test_a_selector_matches_pods_by_labels_that_the_report_hides():
    """Two labels that look the same where they are hidden are two labels."""

    def policy(label: str) -> dict[str, Any]:
        spec = {"podSelector": {"matchLabels": {"app": label}}, "policyTypes": ["Egress"]}
        return {"metadata": {"name": "p", "namespace": "ai"}, "spec": spec}

    template = {"metadata": {"labels": {"app": CANARY}}, "spec": {"containers": [{"name": "c"}]}}
    server = {
        "metadata": {"name": "x", "namespace": "ai"},
        "spec": {"replicas": 1, "template": template},
    }
    for label, count in ((CANARY, 1), (CANARY[::-1], 0)):
        network = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
        events = stream(
            step("same", DEPLOYMENT, "x", server, server),
            step("create", network, "p", None, policy(label)),
        )
        risks = make_report([read_bytes(events)]).stacks[0].risks
        assert sum("isolates running pods" in each.what for each in risks) == count
