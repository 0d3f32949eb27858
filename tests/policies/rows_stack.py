"""Cases of the rules that look at all resources of a stack."""

from __future__ import annotations

from tests.policies.cases import PASS, REFUSED, UNJUDGED, Row

CHAT = "Deployment/chat"
POD = "spec.template.spec"
DEPENDS = "@dependencies"
BUDGET = "metadata.annotations.inferplan\\.dev/monthly-budget-usd"


def row(rule, resource, path, bad, near, absent, **more):
    return Row(rule=rule, resource=resource, path=path, bad=bad, near=near, absent=absent, **more)


ROWS = (
    row("stack-require-startup-budget-for-model", "VllmService/chat", "spec.weights.size", "400Gi", "200Gi", PASS),
    row("stack-require-disruption-budget", "PodDisruptionBudget/chat", "spec.selector.matchLabels.app", "chatt", "chat", PASS),
    row("stack-disallow-budget-of-all-replicas", "PodDisruptionBudget/gateway", "spec.minAvailable", 2, "50%", PASS),
    row("stack-disallow-replicas-of-autoscaled", "HorizontalPodAutoscaler/scaler", "spec.scaleTargetRef.name", "chat", "chatty", PASS),
    row(
        "stack-require-room-for-rollout",
        CHAT,
        "spec.strategy.rollingUpdate",
        {"maxSurge": 3, "maxUnavailable": 0},
        {"maxSurge": 2, "maxUnavailable": 0},
        PASS,
        unknown=UNJUDGED,
    ),
    row("stack-require-pool-capacity", CHAT, "spec.replicas", 5, 4, PASS),
    row("stack-require-matching-pool", CHAT, f"{POD}.nodeSelector.pool", "l40", "l40s", PASS),
    row("stack-require-default-deny", "NetworkPolicy/default-deny", "spec.policyTypes", ["Ingress"], ["Egress", "Ingress"], REFUSED),
    row(
        "stack-require-gateway-before-models", "Ingress/gateway", "spec.rules[0].http.paths[0].backend.service.name", "chat", "chatty", PASS
    ),
    row(
        "stack-require-policy-before-models",
        "NetworkPolicy/chat",
        "spec.ingress[0].from",
        [{"namespaceSelector": {}}],
        [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        REFUSED,
        more=(([{"ipBlock": {"cidr": "0.0.0.0/0"}}], REFUSED),),
    ),
    row(
        "stack-require-preheat-before-serving",
        CHAT,
        f"{POD}.volumes[0].persistentVolumeClaim.claimName",
        "shared",
        "other",
        PASS,
        also={DEPENDS: []},
        base=REFUSED,
    ),
    row("stack-require-unique-routes", "HTTPRoute/second", "spec.hostnames", ["llm.acme.example"], ["llm2.acme.example"], PASS),
    row("s3-require-block", "BucketPublicAccessBlock/weights", "bucket", "acme-weight", "acme-weights", REFUSED, unknown=REFUSED),
    row(
        "s3-require-encryption",
        "BucketServerSideEncryptionConfiguration/weights",
        "rules[0].applyServerSideEncryptionByDefault.sseAlgorithm",
        "none",
        "AES256",
        REFUSED,
    ),
    row("s3-require-versioning", "BucketVersioning/weights", "versioningConfiguration.status", "Suspended", "Enabled", REFUSED),
    row(
        "s3-require-tls",
        "BucketPolicy/weights",
        "policy",
        '{"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}]}',
        '{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": false}}}}',
        REFUSED,
    ),
    row("s3-require-logging", "BucketLogging/weights", "bucket", "acme-weight", "acme-weights", REFUSED, unknown=REFUSED),
    row("stack-limit-spend", "NodeGroup/l40s", "scalingConfig.maxSize", 10, 9, PASS),
    row(
        "stack-limit-spend",
        "Namespace/inference",
        BUDGET,
        "4000",
        "4600",
        PASS,
        more=(("plenty", REFUSED), ("-1", REFUSED), (4000, REFUSED)),
    ),
    row("stack-limit-spend", "NodeGroup/l40s", "instanceTypes[0]", "p5e.48xlarge", "g6e.xlarge", REFUSED),
)

# Rules on what a resource is registered with, which is no field of its inputs: resource, option, bad value, near miss.
OPTIONS = (
    ("stack-require-protection", "Bucket/weights", "protect", False, True),
    ("stack-require-protection", "Cluster/main", "protect", False, True),
    ("stack-disallow-several-providers", "Service/chat", "provider", "", None),
    (
        "stack-disallow-several-providers",
        "Service/chat",
        "provider",
        "urn:pulumi:test::inferplan::pulumi:providers:kubernetes::other",
        None,
    ),
)
