"""Cases of the rules on networks, keys, volumes and other objects of the cluster."""

from __future__ import annotations

from tests.policies.cases import ABSENT, PASS, REFUSED, Row

CERTIFICATE, LISTEN = "alb.ingress.kubernetes.io/certificate-arn", "alb.ingress.kubernetes.io/listen-ports"
OPEN = {"cidr": "0.0.0.0/0", "except": []}


def row(rule, resource, path, bad, near, absent, **more):
    return Row(rule=rule, resource=resource, path=path, bad=bad, near=near, absent=absent, **more)


ROWS = (
    row(
        "network-disallow-node-port",
        "Service/chat",
        "spec.type",
        "NodePort",
        "ClusterIP",
        PASS,
        more=(("LoadBalancer", REFUSED), ("ExternalName", REFUSED)),
    ),
    row("service-disallow-name-vllm", "Service/chat", "metadata.name", "vllm", "vllm-chat", PASS),
    row("network-require-ingress-host", "Ingress/gateway", "spec.rules[0].host", "*.acme.example", "a.b.acme.example", REFUSED),
    row(
        "network-require-tls",
        "Ingress/gateway",
        "spec.tls",
        [{"hosts": ["other.example"], "secretName": "x"}],
        [{"hosts": ["x", "llm.acme.example"], "secretName": "x"}],
        REFUSED,
    ),
    row(
        "network-require-tls",
        "Ingress/gateway",
        "metadata.annotations",
        {CERTIFICATE: "arn:aws:acm:1", LISTEN: '[{"HTTP":80},{"HTTPS":443}]'},
        {CERTIFICATE: "arn:aws:acm:1", LISTEN: '[{"HTTPS":443}]'},
        REFUSED,
        also={"spec.ingressClassName": "alb", "spec.tls": ABSENT},
        base=REFUSED,
        more=(({LISTEN: '[{"HTTPS":443}]'}, REFUSED),),
    ),
    row(
        "network-require-tls",
        "Ingress/gateway",
        "spec.ingressClassName",
        "nginx",
        "alb",
        REFUSED,
        also={"metadata.annotations": {CERTIFICATE: "arn:aws:acm:1"}, "spec.tls": ABSENT},
        base=REFUSED,
    ),
    row(
        "network-disallow-snippets",
        "Ingress/gateway",
        "metadata.annotations",
        {"nginx.ingress.kubernetes.io/server-snippet": "canary-value;"},
        {"snippet.example/note": "x"},
        PASS,
    ),
    row("network-require-route-timeout", "HTTPRoute/second", "spec.rules[0].timeouts.request", "", "300s", REFUSED),
    row(
        "network-require-key-policy", "SecurityPolicy/second", "spec.apiKeyAuth.credentialRefs", [], [{"name": "a"}, {"name": "b"}], REFUSED
    ),
    row("network-require-key-policy", "SecurityPolicy/second", "spec.apiKeyAuth.sanitize", False, True, REFUSED),
    row(
        "network-require-key-policy",
        "SecurityPolicy/second",
        "spec.apiKeyAuth.extractFrom",
        [{"headers": ["x-api-key"]}, {"params": ["key"]}],
        [{"headers": ["x-api-key", "Authorization"]}],
        REFUSED,
        more=(([{"cookies": ["key"]}], REFUSED),),
    ),
    row(
        "network-require-key-policy",
        "SecurityPolicy/second",
        "spec.jwt",
        ABSENT,
        {"providers": []},
        REFUSED,
        also={"spec.apiKeyAuth": ABSENT},
        base=REFUSED,
    ),
    row(
        "network-require-policy-ports",
        "NetworkPolicy/chat",
        "spec.ingress[0].ports",
        [{"port": 8000, "endPort": 9000}],
        [{"port": "http"}],
        REFUSED,
    ),
    row(
        "network-disallow-metadata-egress",
        "NetworkPolicy/chat",
        "spec.egress[0].to[0].ipBlock",
        OPEN,
        {"cidr": "10.0.0.0/8"},
        PASS,
        more=(
            ({"cidr": "169.254.0.0/16"}, REFUSED),
            ({"cidr": "::/0"}, REFUSED),
            ({"cidr": "2001:db8::/32"}, PASS),
            ({"cidr": "everywhere"}, REFUSED),
        ),
    ),
    row(
        "namespace-require-pod-security",
        "Namespace/inference",
        "metadata.labels.pod-security\\.kubernetes\\.io/enforce",
        "baseline",
        "restricted",
        REFUSED,
    ),
    row("rollout-disallow-blocking-budget", "PodDisruptionBudget/chat", "spec.maxUnavailable", 0, "1%", PASS),
    row(
        "key-require-entropy",
        "Secret/chat-key",
        "stringData.api-key",
        "hunter2-hunter2",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c",
        PASS,
    ),
    row(
        "key-limit-valid-versions",
        "Secret/chat-key",
        "stringData.api-key",
        "Zk3vQ9rT1mXw8Lp\nB5nHs7YdCe2Ja4G\nuFqRtVbNzM6xKww",
        "Zk3vQ9rT1mXw8Lp\nB5nHs7YdCe2Ja4G",
        PASS,
    ),
    row(
        "key-limit-valid-versions",
        "Secret/chat-key",
        "stringData.keys\\.conf",
        'map $key_id $key_check {\n    chat_1 "canary-a";\n    "chat_2" "canary-b";\n    "chat_12" "canary-c";\n}',
        'map $key_id $key_check {\n    "chat_1" "a";\n    "chat_2" "b";\n    "batch_1" "c";\n    "chat-two_3" "d";\n}',
        PASS,
        more=(('    "chat_1" "a";\n    "chat_2" "b";\n    "_x" "c";\n    "_x" chat;\n    "_x" 3;\n', REFUSED),),
    ),
    row(
        "key-require-entropy",
        "Secret/chat-key",
        "stringData.keys\\.conf",
        'map /$model $server_authorization {\n    /chat "Bearer canary-hunter2";\n}',
        'map /$model $server_authorization {\n    default "";\n    /chat "Bearer ips_Zk3vQ9rT1mXw8LpB5nHs7YdCe2Ja4GuFqRtVbNzM6xK";\n}',
        PASS,
    ),
    row(
        "key-limit-age",
        "Secret/chat-key",
        "metadata.annotations.inferplan\\.dev/issued",
        "2024-01-31",
        "2026-11-21",
        PASS,
        more=(("last week", REFUSED), ("2026-11-22", PASS), ("2999-01-01", REFUSED)),
    ),
    row(
        "secret-disallow-in-config-map",
        "ConfigMap/gateway",
        "data",
        {"api-key": "canary-0123456789"},
        {"api-key-header": "Authorization"},
        PASS,
    ),
    row("object-require-managed-by", "Service/chat", "metadata.labels.app\\.kubernetes\\.io/managed-by", "", "Helm", REFUSED),
)
