"""Cases of the rules that look at all resources of a stack."""

from __future__ import annotations

from tests.policies.cases import ADMINS, PASS, REFUSED, UNJUDGED, Row

CHAT, WIDE, RAY, SCALER = "Deployment/chat", "LeaderWorkerSet/wide", "RayService/rays", "HorizontalPodAutoscaler/scaler"
QUEUE = "metadata.labels.kueue\\.x-k8s\\.io/queue-name"
POD = "spec.template.spec"
MOUNTED = {f"{POD}.containers[0].volumeMounts[0].readOnly": False}
CLAIMED = {f"{POD}.volumes[0].persistentVolumeClaim.readOnly": False}
WRITTEN = {
    **CLAIMED,
    f"{POD}.containers[0].volumeMounts[0].subPath": "chat/1",
    f"{POD}.containers[0].volumeMounts[4]": {"name": "model", "mountPath": "/recipes"},
}
REQUESTS = "spec.spec.devices.requests"
ONE_CLAIM = {"name": "cards", "resourceClaimName": "cards"}
DEPENDS = "@dependencies"
SCALES_ALONE = {"spec.scaleTargetRef.name": "alone"}
# A Deployment of one pod, which spreads nothing and leaves its number to whatever scales it.
SCALES_UNSPREAD = {"spec.scaleTargetRef.name": "single"}
# The route under another name, which no SecurityPolicy guards.
OTHER = {"metadata.name": "third"}
BUDGET = "metadata.annotations.inferplan\\.dev/monthly-budget-usd"


ROWS = (
    Row("stack-require-startup-budget-for-model", CHAT, f"{POD}.containers[0].startupProbe.failureThreshold", 8, 9, REFUSED),
    Row("stack-require-stated-powers", "AccessPolicyAssociation/admin", "principalArn", f"{ADMINS[0]}s", ADMINS[1], REFUSED),
    Row("stack-require-stated-powers", "Bucket/weights", "forceDestroy", True, False, PASS),
    Row("stack-require-disruption-budget", "PodDisruptionBudget/chat", "spec.selector.matchLabels.app", "chatt", "chat", PASS),
    Row("stack-require-disruption-budget", SCALER, "spec.minReplicas", 2, 1, PASS, also=SCALES_ALONE),
    Row("pod-require-spread", CHAT, f"{POD}.topologySpreadConstraints", [], [{"maxSkew": 1}], REFUSED),
    Row("pod-require-spread", SCALER, "spec.minReplicas", 2, 1, PASS, also=SCALES_UNSPREAD),
    Row("stack-disallow-budget-of-all-replicas", "PodDisruptionBudget/gateway", "spec.minAvailable", 2, "50%", PASS),
    Row("stack-disallow-replicas-of-autoscaled", "HorizontalPodAutoscaler/scaler", "spec.scaleTargetRef.name", "chat", "chatty", PASS),
    Row(
        "stack-require-room-for-rollout",
        CHAT,
        "spec.strategy.rollingUpdate",
        {"maxSurge": 3, "maxUnavailable": 0},
        {"maxSurge": 2, "maxUnavailable": 0},
        PASS,
        unknown=UNJUDGED,
    ),
    Row("stack-require-room-in-namespace", "ResourceQuota/bounds", "spec.hard.pods", "3", "200", PASS, more=(("0", REFUSED),)),
    Row("stack-require-room-in-namespace", "ResourceQuota/bounds", "spec.hard", {"requests.memory": "1Gi"}, {"secrets": "9"}, PASS),
    Row("stack-require-room-in-namespace", "LimitRange/bounds", "spec.limits[0].max.memory", "1Mi", "4Ti", PASS),
    Row("stack-require-room-in-namespace", "LimitRange/bounds", "spec.limits[1].max.cpu", "10m", "900", PASS),
    Row("stack-require-pool-capacity", CHAT, "spec.replicas", 5, 4, PASS),
    Row("stack-require-pool-capacity", WIDE, "spec.replicas", 3, 2, PASS),
    Row("stack-require-pool-capacity", WIDE, "spec.leaderWorkerTemplate.size", 6, 4, PASS),
    Row("stack-require-pool-capacity", "Deployment/claimed", "spec.replicas", 3, 2, PASS),
    Row(
        "stack-require-pool-capacity",
        "ResourceClaimTemplate/cards",
        f"{REQUESTS}[0].exactly.count",
        3,
        2,
        PASS,
        more=(("2", REFUSED),),
    ),
    Row(
        "stack-require-pool-capacity",
        "ResourceClaimTemplate/cards",
        f"{REQUESTS}[0]",
        {"deviceClassName": "gpu.nvidia.com", "count": 3},
        {"exactly": {"deviceClassName": "compute-domain-daemon.nvidia.com", "count": 9}},
        PASS,
        more=(
            ({"exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}}, UNJUDGED),
            ({"exactly": {"deviceClassName": "large-cards"}}, UNJUDGED),
            ({"firstAvailable": [{"deviceClassName": "gpu.nvidia.com"}]}, UNJUDGED),
        ),
    ),
    Row("stack-require-matching-pool", "Deployment/claimed", f"{POD}.nodeSelector.pool", "claim", "claims", PASS),
    Row(
        "stack-require-own-claims",
        "Deployment/claimed",
        f"{POD}.resourceClaims",
        [{"name": "cards", "resourceClaimName": "cards"}],
        [{"name": "cards", "resourceClaimTemplateName": "cards"}],
        PASS,
        also={"spec.replicas": 2},
    ),
    Row("stack-require-own-claims", "Deployment/claimed", "spec.replicas", 2, 1, PASS, also={f"{POD}.resourceClaims[0]": ONE_CLAIM}),
    Row("stack-require-known-queue", WIDE, QUEUE, "mian", "main", PASS),
    Row(
        "stack-require-covered-resources",
        "ClusterQueue/main",
        "spec.resourceGroups[0].coveredResources",
        ["cpu", "memory"],
        ["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"],
        REFUSED,
    ),
    Row(
        "stack-require-covered-resources",
        WIDE,
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].resources.requests",
        {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "1Gi"},
        {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"},
        PASS,
    ),
    Row(
        "stack-require-client-keys",
        "Secret/consumers",
        "stringData.chat-1",
        "hunter2-hunter2",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c",
        PASS,
        more=(("Bearer 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c", REFUSED),),
    ),
    Row("stack-disallow-scaler-of-ray", SCALER, "spec.scaleTargetRef.kind", "RayService", "StatefulSet", PASS),
    Row(
        "stack-require-gateway-before-models",
        "SecurityPolicy/second",
        "spec.apiKeyAuth.credentialRefs",
        [],
        [{"name": "chat"}, {"name": "batch"}],
        REFUSED,
    ),
    Row(
        "stack-require-gateway-before-models",
        "HTTPRoute/second",
        "spec.rules[0].backendRefs[0].name",
        "chat",
        "gateway",
        PASS,
        also=OTHER,
        base=REFUSED,
    ),
    Row(
        "stack-require-gateway-before-models",
        "HTTPRoute/second",
        "spec.rules[0].backendRefs[0].name",
        "rays-serve-svc",
        "rays",
        PASS,
        also=OTHER,
        base=REFUSED,
    ),
    Row(
        "stack-require-policy-before-models",
        "NetworkPolicy/wide",
        "spec.ingress[0].from",
        [{"podSelector": {}}],
        [{"podSelector": {"matchLabels": {"a": "b"}}}],
        REFUSED,
    ),
    Row(
        "stack-disallow-replicas-of-autoscaled",
        SCALER,
        "spec.scaleTargetRef",
        {"kind": "LeaderWorkerSet", "name": "wide"},
        {"kind": "StatefulSet", "name": "wide"},
        PASS,
    ),
    Row("stack-require-matching-pool", CHAT, f"{POD}.nodeSelector.pool", "l40", "l40s", PASS),
    Row("stack-require-default-deny", "NetworkPolicy/default-deny", "spec.policyTypes", ["Ingress"], ["Egress", "Ingress"], REFUSED),
    Row(
        "stack-require-gateway-before-models", "Ingress/gateway", "spec.rules[0].http.paths[0].backend.service.name", "chat", "chatty", PASS
    ),
    Row(
        "stack-require-policy-before-models",
        "NetworkPolicy/chat",
        "spec.ingress[0].from",
        [{"namespaceSelector": {}}],
        [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        REFUSED,
        more=(([{"ipBlock": {"cidr": "0.0.0.0/0"}}], REFUSED),),
    ),
    Row(
        "stack-require-preheat-before-serving",
        CHAT,
        f"{POD}.volumes[0].persistentVolumeClaim.claimName",
        "shared",
        "other",
        PASS,
        also={DEPENDS: []},
        base=REFUSED,
    ),
    Row("stack-require-read-only-weights", CHAT, f"{POD}.volumes[0].persistentVolumeClaim.readOnly", False, True, REFUSED, also=MOUNTED),
    Row("stack-require-read-only-weights", CHAT, f"{POD}.containers[0].volumeMounts[0].readOnly", False, True, REFUSED, also=CLAIMED),
    Row(
        "stack-require-read-only-weights",
        CHAT,
        f"{POD}.containers[0].volumeMounts[4].subPath",
        "chat/1",
        "recipes/chat",
        REFUSED,
        also=WRITTEN,
        base=REFUSED,
    ),
    Row(
        "stack-require-read-only-weights",
        CHAT,
        f"{POD}.containers[0].volumeMounts[4].subPath",
        "chat",
        "chat-1",
        REFUSED,
        also=WRITTEN,
        base=REFUSED,
    ),
    Row("stack-require-unique-routes", "HTTPRoute/second", "spec.hostnames", ["llm.acme.example"], ["llm2.acme.example"], PASS),
    Row("s3-require-block", "BucketPublicAccessBlock/weights", "bucket", "acme-weight", "acme-weights", REFUSED, unknown=REFUSED),
    Row(
        "s3-require-encryption",
        "BucketServerSideEncryptionConfiguration/weights",
        "rules[0].applyServerSideEncryptionByDefault.sseAlgorithm",
        "none",
        "AES256",
        REFUSED,
    ),
    Row(
        "s3-disallow-expiring-weights",
        "BucketLifecycleConfiguration/weights",
        "rules[0]",
        {"id": "tidy", "status": "Enabled", "filter": {"prefix": ""}, "expiration": {"days": 365}},
        {"id": "tidy", "status": "Enabled", "filter": {"prefix": "logs/"}, "expiration": {"days": 365}},
        PASS,
        more=(
            ({"id": "tidy", "status": "Enabled", "filter": {"prefix": "llm/old"}, "expiration": {"date": "2027-01-01T00:00:00Z"}}, REFUSED),
            ({"id": "tidy", "status": "Disabled", "filter": {"prefix": ""}, "expiration": {"days": 365}}, PASS),
            ({"id": "tidy", "status": "Enabled", "filter": {"prefix": ""}, "expiration": {"expiredObjectDeleteMarker": True}}, PASS),
        ),
    ),
    Row("s3-require-versioning", "BucketVersioning/weights", "versioningConfiguration.status", "Suspended", "Enabled", REFUSED),
    Row(
        "s3-require-tls",
        "BucketPolicy/weights",
        "policy",
        '{"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}]}',
        '{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": false}}}}',
        REFUSED,
    ),
    Row("s3-require-logging", "BucketLogging/weights", "bucket", "acme-weight", "acme-weights", REFUSED, unknown=REFUSED),
    Row(
        "stack-disallow-unseen-objects",
        "ClusterQueue/main",
        "spec.template.securityContext",
        {"privileged": True},
        {"type": "object", "properties": {}},
        PASS,
        unknown=REFUSED,
    ),
    Row(
        "stack-restrict-gateway-keys",
        "Deployment/chat",
        "spec.template.spec.volumes[1]",
        {"name": "shm", "secret": {"secretName": "consumers"}},
        {"name": "shm", "secret": {"secretName": "chat-tls"}},
        PASS,
        more=(({"name": "shm", "projected": {"sources": [{"secret": {"name": "gateway-keys"}}]}}, REFUSED),),
    ),
    Row("stack-limit-spend", "NodeGroup/l40s", "scalingConfig.maxSize", 10, 9, PASS),
    Row(
        "stack-limit-spend",
        "Namespace/inference",
        BUDGET,
        "4000",
        "4600",
        PASS,
        more=(("plenty", REFUSED), ("-1", REFUSED), (4000, REFUSED)),
    ),
    Row("stack-limit-spend", "NodeGroup/l40s", "instanceTypes[0]", "p5e.48xlarge", "g6e.xlarge", REFUSED),
)

# Rules on what a resource is registered with, which is no field of its inputs and never unknown or secret: resource, option, value, verdict.
OTHER_PROVIDER = "urn:pulumi:test::inferplan::pulumi:providers:kubernetes::other"
SAME_PROVIDER = "urn:pulumi:test::inferplan::pulumi:providers:kubernetes::cluster"
OPTIONS = (
    ("stack-require-protection", "Bucket/weights", "protect", False, REFUSED),
    ("stack-require-protection", "Bucket/weights", "protect", True, PASS),
    ("stack-require-protection", "Bucket/weights", "retain_on_delete", True, PASS),
    ("stack-require-protection", "Cluster/main", "protect", False, REFUSED),
    ("stack-require-protection", "FileSystem/shared", "protect", False, REFUSED),
    ("stack-require-protection", "NodeGroup/l40s", "protect", False, PASS),
    ("stack-require-protection", "Bucket/weights", "resource", None, PASS),
    ("stack-disallow-several-providers", "Service/chat", "provider", "", REFUSED),
    ("stack-disallow-several-providers", "Service/chat", "provider", OTHER_PROVIDER, REFUSED),
    ("stack-disallow-several-providers", "Service/chat", "provider", SAME_PROVIDER, PASS),
    ("stack-disallow-several-providers", "Deployment/chat", "provider", "", REFUSED),
    ("stack-disallow-several-providers", "VllmService/chat", "provider", OTHER_PROVIDER, PASS),
    ("stack-disallow-several-providers", "Bucket/weights", "provider", OTHER_PROVIDER, PASS),
    ("stack-disallow-several-providers", "Service/chat", "resource", None, PASS),
)
