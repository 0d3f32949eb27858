"""One-line changes of plain Kubernetes and AWS programs: whatever may hurt someone is a risk with
its cause, and the rest stays calm.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from inferplan.kube.paths import parse
from inferplan.review.report import make_report
from inferplan.review.risks.guards import Guards
from inferplan.review.verdict import CALM
from inferplan.review.verdict import RISKY as RISKY_RANK
from tests.review_streams import preview, step

ABSENT = "absent"
CONTAINER = {
    "name": "tgi",
    "image": "ghcr.io/acme/tgi:3.1",
    "args": ["--model-id", "/data/mixtral", "--max-input-length=4096"],
    "env": [
        {"name": "LOG_LEVEL", "value": "info"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "t"}}},
    ],
    "resources": {
        "requests": {"cpu": "4", "memory": "24Gi"},
        "limits": {"memory": "32Gi", "nvidia.com/gpu": 2},
    },
    "readinessProbe": {"httpGet": {"path": "/health", "port": 80}, "periodSeconds": 5},
    "startupProbe": {"failureThreshold": 60, "periodSeconds": 10},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/shm"}],
}
POD = {
    "containers": [CONTAINER],
    "initContainers": [{"name": "warm", "image": "busybox:1.37", "command": ["true"]}],
    "serviceAccountName": "mixtral",
    "nodeSelector": {"gpu": "a100"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "securityContext": {"runAsNonRoot": True, "fsGroup": 1000},
    "terminationGracePeriodSeconds": 60,
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "mixtral"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"name": "conf", "configMap": {"name": "mixtral-conf"}},
    ],
}
META: dict[str, Any] = {
    "metadata": {
        "name": "mixtral",
        "namespace": "ai",
        "labels": {"team": "nlp"},
        "annotations": {"owner": "anna"},
    }
}
PLAIN: dict[str, Any] = {
    "kubernetes:apps/v1:Deployment": {
        "spec": {
            "replicas": 3,
            "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"app": "m"}}, "spec": POD},
        }
    },
    "kubernetes:apps/v1:StatefulSet": {
        "spec": {
            "replicas": 3,
            "serviceName": "m",
            "template": {"metadata": {"labels": {"app": "m"}}, "spec": POD},
        }
    },
    "kubernetes:apps/v1:DaemonSet": {"spec": {"template": {"spec": POD}}},
    "kubernetes:batch/v1:CronJob": {
        "spec": {
            "schedule": "0 3 * * *",
            "suspend": False,
            "jobTemplate": {"spec": {"template": {"spec": POD}}},
        }
    },
    "kubernetes:autoscaling/v2:HorizontalPodAutoscaler": {
        "spec": {
            "minReplicas": 3,
            "maxReplicas": 9,
            "scaleTargetRef": {"kind": "Deployment", "name": "mixtral"},
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                }
            ],
        }
    },
    "kubernetes:keda.sh/v1alpha1:ScaledObject": {
        "spec": {
            "minReplicaCount": 2,
            "maxReplicaCount": 8,
            "triggers": [{"type": "prometheus", "metadata": {"threshold": "10", "query": "q"}}],
        }
    },
    "kubernetes:core/v1:ResourceQuota": {
        "spec": {"hard": {"pods": "40", "requests.nvidia.com/gpu": 16, "limits.memory": "512Gi"}}
    },
    "kubernetes:core/v1:LimitRange": {
        "spec": {"limits": [{"type": "Container", "max": {"memory": "64Gi"}}]}
    },
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": {
        "spec": {
            "podSelector": {"matchLabels": {"app": "m"}},
            "policyTypes": ["Ingress", "Egress"],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.4.0.0/16"}}], "ports": [{"port": 443}]}],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}],
        }
    },
    "kubernetes:rbac.authorization.k8s.io/v1:Role": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": {
        "roleRef": {"name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "m"}],
    },
    "kubernetes:core/v1:PersistentVolumeClaim": {
        "spec": {"storageClassName": "gp3", "resources": {"requests": {"storage": "200Gi"}}}
    },
    "kubernetes:core/v1:ConfigMap": {"data": {"config.yaml": "workers: 4\n"}},
    "kubernetes:core/v1:Service": {
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": "m"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        }
    },
    "kubernetes:core/v1:ServiceAccount": {
        "metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/m"}}
    },
    "kubernetes:core/v1:Namespace": {
        "metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted", "team": "nlp"}}
    },
    "kubernetes:policy/v1:PodDisruptionBudget": {"spec": {"minAvailable": 2}},
    "kubernetes:networking.k8s.io/v1:Ingress": {
        "metadata": {"annotations": {"alb.ingress.kubernetes.io/scheme": "internal"}},
        "spec": {
            "rules": [
                {
                    "host": "m.acme.example",
                    "http": {"paths": [{"path": "/", "backend": {"service": {"name": "m"}}}]},
                }
            ]
        },
    },
    "kubernetes:karpenter.sh/v1:NodePool": {
        "spec": {
            "limits": {"cpu": 128},
            "disruption": {"budgets": [{"nodes": "10%"}]},
            "template": {"spec": {"taints": []}},
        }
    },
    "aws:eks/cluster:Cluster": {
        "name": "ml",
        "version": "1.10",
        "upgradePolicy": {"supportType": "STANDARD"},
        "tags": {"team": "nlp"},
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "scalingConfig": {"minSize": 2, "desiredSize": 3, "maxSize": 6},
        "instanceTypes": ["g5.xlarge"],
        "labels": {"gpu": "a10"},
        "version": "1.34",
    },
    "aws:ec2/securityGroup:SecurityGroup": {
        "description": "models",
        "ingress": [{"fromPort": 443, "cidrBlocks": ["10.0.0.0/8"]}],
    },
    "aws:s3/bucket:Bucket": {
        "bucket": "acme-models",
        "forceDestroy": False,
        "tags": {"team": "nlp"},
    },
    "aws:iam/role:Role": {
        "maxSessionDuration": 3600,
        "description": "reads models",
        "assumeRolePolicy": '{"Statement": [{"Principal": "a"}]}',
    },
    "aws:sqs/queue:Queue": {"visibilityTimeoutSeconds": 300, "messageRetentionSeconds": 86400},
    "aws:cloudwatch/logGroup:LogGroup": {"retentionInDays": 90},
    "aws:eks/addon:Addon": {"addonName": "coredns", "addonVersion": "v1.11.4-eksbuild.2"},
}
SHORT = {type_.rpartition(":")[2]: type_ for type_ in PLAIN}
C, V = "spec.template.spec.containers[0]", "spec.template.spec"
RISKY = [
    ("Deployment", f"{C}.resources.limits.memory", "4Gi", ["less memory", "32Gi → 4Gi"]),
    ("Deployment", f"{C}.resources.requests.memory", "1Gi", ["less memory", "24Gi → 1Gi"]),
    ("Deployment", f"{C}.resources.requests.cpu", "250m", ["less CPU", "4 → 250m"]),
    ("Deployment", f'{C}.resources.limits["nvidia.com/gpu"]', 1, ["accelerators", "2 → 1"]),
    ("Deployment", f"{C}.args[2]", "--max-input-length=512", ["arguments", "512"]),
    ("Deployment", f"{C}.env[0].value", "debug", ["logs more", "LOG_LEVEL", "debug"]),
    (
        "Deployment",
        f"{C}.env[1].valueFrom.secretKeyRef.name",
        "hub-2",
        ["another Secret", "hub → hub-2"],
    ),
    ("Deployment", f"{C}.readinessProbe.httpGet.path", "/nope", ["checked", "/nope"]),
    ("Deployment", f"{C}.readinessProbe", ABSENT, ["checked", "readinessProbe"]),
    ("Deployment", f"{C}.startupProbe.failureThreshold", 2, ["checked", "60 → 2"]),
    ("Deployment", f"{C}.image", "ghcr.io/acme/tgi:4.0", ["another image", "4.0"]),
    ("StatefulSet", f"{V}.initContainers[0].image", "busybox:edge", ["another image", "edge"]),
    ("StatefulSet", f"{V}.nodeSelector.gpu", "h200", ["Pending", "h200"]),
    ("Deployment", f"{V}.tolerations", ABSENT, ["Pending", "tolerations"]),
    (
        "Deployment",
        f"{V}.topologySpreadConstraints",
        [{"topologyKey": "rack", "maxSkew": 1}],
        ["Pending", "rack"],
    ),
    ("Deployment", f"{V}.schedulerName", "yunikorn", ["scheduled", "yunikorn"]),
    ("DaemonSet", f"{V}.priorityClassName", "scavenger", ["priority", "scavenger"]),
    ("Deployment", f"{V}.securityContext.fsGroup", 2000, ["rights", "2000"]),
    ("Deployment", f"{V}.serviceAccountName", "default", ["rights", "default"]),
    ("Deployment", f"{V}.terminationGracePeriodSeconds", 1, ["cut off", "60 → 1"]),
    ("Deployment", f"{V}.volumes[1].emptyDir.sizeLimit", "64Mi", ["scratch volume", "8Gi → 64Mi"]),
    ("Deployment", f"{V}.volumes[2].configMap.name", "other-conf", ["files", "other-conf"]),
    ("Deployment", f"{V}.hostNetwork", True, ["address of its node", "hostNetwork"]),
    ("Deployment", "spec.template.metadata.labels.app", "n", ["pods", "m → n"]),
    ("Deployment", "spec.strategy.rollingUpdate.maxUnavailable", "100%", ["rolls out", "100%"]),
    ("Deployment", "spec.replicas", 0, ["stops"]),
    ("StatefulSet", "spec.replicas", 1, ["fewer replicas", "3 → 1"]),
    ("CronJob", "spec.suspend", True, ["no longer runs", "suspend"]),
    ("CronJob", "spec.schedule", "0 3 1 1 *", ["runs at other times", "schedule"]),
    ("HorizontalPodAutoscaler", "spec.maxReplicas", 3, ["fewer replicas", "9 → 3"]),
    ("HorizontalPodAutoscaler", "spec.minReplicas", 1, ["fewer replicas", "3 → 1"]),
    (
        "HorizontalPodAutoscaler",
        "spec.metrics[0].resource.target.averageUtilization",
        95,
        ["later", "60 → 95"],
    ),
    ("HorizontalPodAutoscaler", "spec.scaleTargetRef.name", "other", ["other rules", "other"]),
    ("ScaledObject", "spec.maxReplicaCount", 2, ["fewer replicas", "8 → 2"]),
    ("ScaledObject", "spec.triggers[0].metadata.threshold", "100", ["later", "10 → 100"]),
    ("ScaledObject", "spec.triggers[0].metadata.query", "vector(0)", ["other rules", "vector"]),
    ("ScaledObject", "spec.minReplicaCount", 0, ["fewer replicas", "2 → 0"]),
    ("ResourceQuota", "spec.hard.pods", "1", ["quota", "40 → 1"]),
    ("ResourceQuota", 'spec.hard["limits.memory"]', "8Gi", ["quota", "512Gi → 8Gi"]),
    ("ResourceQuota", 'spec.hard["count/services"]', "3", ["quota", "nothing → 3"]),
    ("LimitRange", "spec.limits[0].max.memory", "1Gi", ["limits", "64Gi → 1Gi"]),
    (
        "NetworkPolicy",
        "spec.egress[0].to[0].ipBlock.cidr",
        "0.0.0.0/0",
        ["every address", "10.4.0.0/16"],
    ),
    ("NetworkPolicy", "spec.egress", [], ["connections"]),
    (
        "NetworkPolicy",
        "spec.ingress[0].from[0].podSelector.matchLabels.app",
        "x",
        ["connections", "web → x"],
    ),
    ("NetworkPolicy", "spec.policyTypes", ["Ingress"], ["connections", "Egress"]),
    ("Role", "rules[0].verbs", ["*"], ["permissions"]),
    ("RoleBinding", "subjects[0].name", "n", ["permissions", "m → n"]),
    ("PersistentVolumeClaim", "spec.resources.requests.storage", "20Gi", ["200Gi → 20Gi"]),
    ("ConfigMap", 'data["config.yaml"]', "workers: 0\n", ["other content"]),
    ("Service", "spec.selector.app", "n", ["other pods", "m → n"]),
    ("Service", "spec.type", "LoadBalancer", ["outside the cluster", "LoadBalancer"]),
    ("Service", "spec.ports[0].targetPort", 9, ["routes", "8080 → 9"]),
    (
        "ServiceAccount",
        'metadata.annotations["eks.amazonaws.com/role-arn"]',
        "arn:aws:iam::1:role/x",
        ["another role"],
    ),
    (
        "Namespace",
        'metadata.labels["pod-security.kubernetes.io/enforce"]',
        "privileged",
        ["admits", "privileged"],
    ),
    ("PodDisruptionBudget", "spec.minAvailable", 0, ["2 → 0"]),
    ("Ingress", "spec.rules[0].http.paths[0].backend.service.name", "n", ["routes", "m → n"]),
    (
        "Ingress",
        'metadata.annotations["alb.ingress.kubernetes.io/scheme"]',
        "internet-facing",
        ["annotations", "internet-facing"],
    ),
    ("NodePool", "spec.limits.cpu", 8, ["fewer nodes", "128 → 8"]),
    ("NodePool", "spec.limits.cpu", 256, ["buy more nodes", "128 → 256"]),
    (
        "ResourceQuota",
        'spec.hard["limits.memory"]',
        ABSENT,
        ["no longer limits", "512Gi → nothing"],
    ),
    ("NodePool", "spec.disruption.budgets[0].nodes", "100%", ["100%"]),
    ("Cluster", "version", "1.9", ["downgrades", "rejects"]),
    ("Cluster", "upgradePolicy.supportType", "EXTENDED", ["EXTENDED"]),
    ("NodeGroup", "scalingConfig.maxSize", 3, ["fewer nodes", "6 → 3"]),
    ("NodeGroup", "instanceTypes", ["t3.small"], ["t3.small"]),
    ("NodeGroup", "version", "1.33", ["downgrades"]),
    ("SecurityGroup", "ingress[0].cidrBlocks", ["0.0.0.0/0"], ["0.0.0.0/0"]),
    ("Bucket", "forceDestroy", True, ["forceDestroy"]),
    ("Role_", "maxSessionDuration", 900, ["maxSessionDuration"]),
    ("Addon", "addonVersion", "v1.8.0", ["restarts", "v1.8.0"]),
]
HARMLESS = [
    ("Deployment", "metadata.labels.team", "vision"),
    ("Deployment", "metadata.annotations.owner", "ben"),
    ("Deployment", 'metadata.annotations["acme.example/description"]', "serves Mixtral"),
    ("Deployment", 'metadata.labels["app.kubernetes.io/version"]', "2"),
    ("Deployment", "spec.template.metadata.labels.version", "2"),
    ("Deployment", 'spec.template.metadata.annotations["checksum/config"]', "abc"),
    (
        "Deployment",
        'spec.template.metadata.annotations["kubectl.kubernetes.io/restartedAt"]',
        "2026-11-20",
    ),
    ("Deployment", "spec.replicas", 5),
    ("Deployment", "spec.revisionHistoryLimit", 5),
    ("Deployment", f"{C}.resources.limits.memory", "48Gi"),
    ("Deployment", f"{C}.resources.requests.cpu", "8"),
    ("Deployment", f"{C}.startupProbe.failureThreshold", 90),
    ("Deployment", f"{V}.terminationGracePeriodSeconds", 300),
    ("Deployment", f"{V}.volumes[1].emptyDir.sizeLimit", "16Gi"),
    ("StatefulSet", "spec.replicas", 4),
    ("HorizontalPodAutoscaler", "spec.maxReplicas", 12),
    ("HorizontalPodAutoscaler", "spec.minReplicas", 4),
    ("HorizontalPodAutoscaler", "spec.metrics[0].resource.target.averageUtilization", 40),
    ("ScaledObject", "spec.triggers[0].metadata.threshold", "5"),
    ("ResourceQuota", "spec.hard.pods", "80"),
    ("PersistentVolumeClaim", "spec.resources.requests.storage", "400Gi"),
    ("Service", "metadata.labels.team", "vision"),
    ("ConfigMap", "metadata.annotations.owner", "ben"),
    ("Namespace", "metadata.labels.team", "vision"),
    ("Ingress", "spec.rules[1].host", "m2.acme.example"),
    ("Cluster", "tags.team", "vision"),
    ("NodeGroup", "scalingConfig.maxSize", 7),
    ("Bucket", "tags.team", "vision"),
    ("LogGroup", "retentionInDays", 365),
]


def update(kind, path, value):
    type_ = (
        "aws:iam/role:Role"
        if kind == "Role_"
        else "kubernetes:rbac.authorization.k8s.io/v1:Role"
        if kind == "Role"
        else SHORT[kind]
    )
    old = (
        copy.deepcopy(META | PLAIN[type_])
        if type_.startswith("kubernetes:")
        else copy.deepcopy(PLAIN[type_])
    )
    if "metadata" in PLAIN[type_]:
        old["metadata"] = copy.deepcopy(META["metadata"] | PLAIN[type_]["metadata"])
    new = copy.deepcopy(old)
    *parts, last = parse(path)
    holder: Any = new
    for part in parts:
        if isinstance(part, int) and part == len(holder):
            holder.append({})
        holder = holder.setdefault(part, {}) if isinstance(holder, dict) else holder[part]
    if value is ABSENT:
        del holder[last]
    else:
        holder[last] = value
    return step("update", type_, "mixtral", old, new)


def test_the_tables_are_as_large_as_was_promised():
    assert len(RISKY) >= 60
    assert len(HARMLESS) >= 25


@pytest.mark.parametrize(("kind", "path", "value", "words"), RISKY, ids=lambda each: str(each)[:60])
def test_a_change_that_may_hurt_is_a_risk_with_its_cause(kind, path, value, words):
    report = make_report([preview(update(kind, path, value))])
    assert report.rank < CALM
    first = report.stacks[0].serious[0]
    said = f"{first.what} {first.name} {first.cause} {first.consequence}".lower()
    assert [word for word in words if word.lower() not in said] == [], said
    assert first.name == "mixtral"


@pytest.mark.parametrize(("kind", "path", "value"), HARMLESS, ids=lambda each: str(each)[:60])
def test_a_harmless_change_stays_calm(kind, path, value):
    report = make_report([preview(update(kind, path, value))])
    assert report.rank == CALM, [(each.what, each.cause) for each in report.stacks[0].serious]


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", "spec.replicas", 0),
        ("Cluster", "version", "1.9"),
        ("NodeGroup", "version", "1.33"),
    ],
)
def test_a_stop_and_a_downgrade_are_critical(kind, path, value):
    assert make_report([preview(update(kind, path, value))]).stacks[0].risks[0].weight == 0


UNKNOWN = [
    "command:local:Command",
    "docker:index/container:Container",
    "pulumi-python:dynamic:Resource",
    "gcp:compute/instance:Instance",
    "kubernetes:yaml/v2:ConfigFile",
    "kubernetes:kustomize/v2:Directory",
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
    "aws:kms/grant:Grant",
    "aws:ssm/parameter:Parameter",
]


@pytest.mark.parametrize("type_", UNKNOWN)
@pytest.mark.parametrize("op", ["create", "update", "delete", "replace"])
def test_an_unknown_type_is_a_risk_until_the_stack_accepts_it(type_, op):
    old, new = (
        (None if op == "create" else {"value": "a"}),
        (None if op == "delete" else {"value": "b"}),
    )
    content = preview(
        step("same", "kubernetes:core/v1:Namespace", "ai", {}, {}), step(op, type_, "odd", old, new)
    )
    assert make_report([content]).rank < CALM
    entry = {"type": type_, "reason": "reviewed", "owner": "platform", "expires": "2026-12-31"}
    for day, accepted in (("2026-12-01", True), ("2027-01-01", False)):
        guards = Guards(
            after={"acceptedTypes": [entry]}, before={"acceptedTypes": [entry]}, today=day
        )
        is_calm = make_report([content], read_guards=lambda _, guards=guards: guards).rank >= CALM
        # Accepting a type accepts that it exists, not that it is lost.
        assert is_calm is (accepted and op in ("create", "update"))


@pytest.mark.parametrize(
    ("type_", "rank"), [("acme:app:Chatbot", CALM), ("kubernetes:yaml/v2:ConfigFile", RISKY_RANK)]
)
@pytest.mark.parametrize("op", ["create", "update"])
def test_a_component_of_a_user_is_judged_by_its_resources_and_one_of_a_provider_by_itself(
    type_, rank, op
):
    own = {"custom": False}
    event = step(
        op,
        type_,
        "app",
        None if op == "create" else {"a": 1},
        {"a": 2},
        old_state=own,
        new_state=own,
    )
    assert make_report([preview(event)]).rank == rank


def test_a_new_stack_of_known_kinds_is_calm_and_its_unknown_types_are_not():
    quota = PLAIN["kubernetes:core/v1:ResourceQuota"]
    assert (
        make_report(
            [preview(step("create", "kubernetes:core/v1:ResourceQuota", "q", None, quota))]
        ).rank
        == CALM
    )
    assert (
        make_report([preview(step("create", "command:local:Command", "c", None, {}))]).rank < CALM
    )


def test_a_quota_below_the_declared_pods_is_critical():
    workload = META | PLAIN["kubernetes:apps/v1:Deployment"]
    small = META | {"spec": {"hard": {"pods": "1"}}}
    events = [step("same", "kubernetes:apps/v1:Deployment", "mixtral", workload, workload)]
    (risk,) = (
        make_report(
            [preview(*events, step("create", "kubernetes:core/v1:ResourceQuota", "q", None, small))]
        )
        .stacks[0]
        .risks
    )
    assert (risk.weight, risk.name) == (0, "q")
    assert "pods 1 for 3" in risk.cause


def test_downtime_names_what_causes_it():
    old = META | PLAIN["kubernetes:apps/v1:Deployment"]
    old = {**old, "spec": {**old["spec"], "strategy": {"type": "Recreate"}}}
    new: Any = copy.deepcopy(old)
    new["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "debug"
    risks = (
        make_report([preview(step("update", "kubernetes:apps/v1:Deployment", "mixtral", old, new))])
        .stacks[0]
        .risks
    )
    (downtime,) = [each for each in risks if each.what == "has downtime during the rollout"]
    assert "env[0].value: info → debug" in downtime.cause
