"""Cases of the rules on who may do what in the cluster, and on what volumes lie on."""

from __future__ import annotations

from tests.policies.cases import PASS, REFUSED, Row


def row(rule, resource, path, bad, near, absent, **more):
    return Row(rule=rule, resource=resource, path=path, bad=bad, near=near, absent=absent, **more)


ROWS = (
    row("rbac-disallow-wildcards", "Role/pod-reader", "rules[0].verbs", ["*"], ["get", "list", "watch"], PASS),
    row(
        "webhook-restrict-scope",
        "ValidatingWebhookConfiguration/images",
        "webhooks[0].rules[0].resources",
        ["deployments", "secrets"],
        ["deployments", "pods"],
        PASS,
        more=((["*"], REFUSED), (["*/*"], REFUSED)),
    ),
    row(
        "webhook-restrict-scope",
        "ValidatingWebhookConfiguration/images",
        "webhooks[0].clientConfig",
        {"url": "https://hooks.example/v"},
        {"service": {"name": "judge", "namespace": "inference"}},
        REFUSED,
    ),
    row("rbac-disallow-admin-bindings", "RoleBinding/pod-reader", "roleRef.name", "cluster-admin", "cluster-admin-reader", PASS),
    row(
        "rbac-disallow-admin-bindings",
        "RoleBinding/pod-reader",
        "subjects[0]",
        {"kind": "Group", "name": "system:unauthenticated"},
        {"kind": "ServiceAccount", "name": "system:unauthenticated"},
        PASS,
    ),
    row("rbac-disallow-admin-bindings", "ClusterRoleBinding/node-reader", "roleRef.name", "edit", "view", PASS),
    row(
        "rbac-disallow-escalation",
        "Role/pod-reader",
        "rules[0].verbs",
        ["get", "bind"],
        ["get", "binding"],
        PASS,
        more=((["escalate"], REFUSED), (["impersonate"], REFUSED), (["*"], PASS)),
    ),
    row(
        "rbac-disallow-escalation",
        "ClusterRole/node-reader",
        "rules[0].resources",
        ["certificatesigningrequests/approval"],
        ["certificatesigningrequests/status"],
        PASS,
        also={"rules[0].apiGroups": ["certificates.k8s.io"], "rules[0].verbs": ["update"]},
    ),
    row(
        "rbac-disallow-escalation",
        "Role/pod-reader",
        "rules[0]",
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"], "resourceNames": ["ranker"]},
        PASS,
        more=(
            ({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"], "resourceNames": ["ranker"]}, REFUSED),
            ({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"]}, REFUSED),
            ({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}, PASS),
        ),
    ),
    row(
        "rbac-disallow-secret-reading",
        "Role/pod-reader",
        "rules[0]",
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["hub"]},
        PASS,
    ),
    row(
        "rbac-disallow-token-creation",
        "Role/pod-reader",
        "rules[0]",
        {"resources": ["serviceaccounts", "serviceaccounts/token"], "verbs": ["create"]},
        {"resources": ["serviceaccounts/token"], "verbs": ["create"], "resourceNames": ["gateway"]},
        PASS,
        more=(
            ({"resources": ["serviceaccounts/token"], "verbs": ["get"]}, PASS),
            ({"resources": ["serviceaccounts"], "verbs": ["create"]}, PASS),
        ),
    ),
    row(
        "rbac-disallow-exec",
        "Role/pod-reader",
        "rules[0].resources",
        ["pods", "pods/exec"],
        ["pods/log", "pods/execute"],
        PASS,
        more=((["nodes/proxy"], REFUSED), (["pods/ephemeralcontainers"], PASS)),
    ),
    row(
        "rbac-disallow-exec",
        "ClusterRole/node-reader",
        "rules[0].verbs",
        ["patch"],
        ["get", "list"],
        PASS,
        also={"rules[0].resources": ["pods/ephemeralcontainers"]},
    ),
    row(
        "rbac-disallow-secret-reading",
        "ClusterRole/node-reader",
        "rules[0]",
        {"resources": ["secrets"], "verbs": ["list"]},
        {"resources": ["secrets"], "verbs": ["get"], "resourceNames": ["gateway-keys"]},
        PASS,
        more=(
            ({"resources": ["secrets"], "verbs": ["create"]}, PASS),
            ({"resources": ["secrets"], "verbs": ["get"], "resourceNames": []}, REFUSED),
        ),
    ),
    row("volume-require-encryption", "StorageClass/fast", "parameters.encrypted", "false", True, REFUSED),
    row(
        "volume-require-encryption",
        "StorageClass/fast",
        "provisioner",
        "kubernetes.io/aws-ebs",
        "nfs.csi.k8s.io",
        PASS,
        also={"parameters": {}},
        base=REFUSED,
    ),
    row(
        "volume-require-encryption",
        "PersistentVolume/shared",
        "spec.csi.volumeAttributes.encryptInTransit",
        "false",
        "true",
        PASS,
        also={"spec.csi.driver": "efs.csi.aws.com"},
    ),
    row("volume-disallow-host-path", "PersistentVolume/shared", "spec.hostPath", {"path": "/srv/models"}, None, PASS),
    row("volume-require-retain", "PersistentVolume/shared", "spec.persistentVolumeReclaimPolicy", "Delete", "Retain", PASS),
    row(
        "volume-require-nfs-options",
        "PersistentVolume/shared",
        "spec.mountOptions",
        ["soft", "nfsvers=4.1"],
        ["nfsvers=4.2", "hard", "noresvport", "nconnect=4"],
        REFUSED,
    ),
)
