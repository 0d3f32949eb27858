"""Careless or hostile edits of whole resources, Kubernetes and AWS, each with the rules of which one must refuse it."""

from __future__ import annotations

from tests.policies.edits import Inputs, Mutation, add, drop, first, is_engine, put


def _clear_disks(template: Inputs) -> None:
    for each in template["blockDeviceMappings"]:
        each.get("ebs", {})["encrypted"] = "false"


RESOURCES: dict[str, tuple[Mutation, ...]] = {
    "Deployment": (
        Mutation(
            "no spread",
            ("pod-require-spread",),
            lambda r: r["spec"].get("replicas", 1) > 1 and drop("spec", "template", "spec", "topologySpreadConstraints")(r),
        ),
        Mutation("many replicas", ("stack-require-pool-capacity",), lambda r: is_engine(r) and put(999, "spec", "replicas")(r) is None),
        Mutation(
            "other pool",
            ("stack-require-matching-pool",),
            lambda r: is_engine(r) and put({"inferplan.dev/pool": "misspelt"}, "spec", "template", "spec", "nodeSelector")(r) is None,
        ),
        Mutation(
            "surge",
            ("stack-require-room-for-rollout",),
            lambda r: is_engine(r) and put({"maxSurge": 99, "maxUnavailable": 0}, "spec", "strategy", "rollingUpdate")(r) is None,
        ),
    ),
    "Job": (
        Mutation("no deadline", ("job-require-end",), drop("spec", "activeDeadlineSeconds")),
        Mutation(
            "GPU in Job", ("accelerator-disallow-in-preheat",), lambda r: first(r)["resources"]["limits"].update({"nvidia.com/gpu": "1"})
        ),
    ),
    "Service": (
        Mutation("node port", ("network-disallow-node-port",), put("NodePort", "spec", "type")),
        Mutation("load balancer", ("network-disallow-node-port",), put("LoadBalancer", "spec", "type")),
        Mutation("external address", ("network-disallow-node-port",), put(["192.0.2.1"], "spec", "externalIPs")),
        Mutation("called vllm", ("service-disallow-name-vllm",), put("vllm", "metadata", "name")),
    ),
    "Ingress": (
        Mutation("any host", ("network-require-ingress-host",), lambda r: r["spec"]["rules"][0].pop("host") and None),
        Mutation("wildcard host", ("network-require-ingress-host",), lambda r: r["spec"]["rules"][0].update(host="*.example")),
        Mutation("no TLS", ("network-require-tls",), drop("spec", "tls")),
        Mutation(
            "snippet",
            ("network-disallow-snippets",),
            put("x", "metadata", "annotations", "nginx.ingress.kubernetes.io/configuration-snippet"),
        ),
    ),
    "NetworkPolicy": (
        Mutation("every port in", ("network-require-policy-ports", "stack-require-policy-before-models"), add({}, "spec", "ingress")),
        Mutation("every port out", ("network-require-policy-ports",), add({}, "spec", "egress")),
        Mutation(
            "metadata",
            ("network-disallow-metadata-egress",),
            add({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 80}]}, "spec", "egress"),
        ),
    ),
    "PodDisruptionBudget": (
        Mutation("no disruption", ("rollout-disallow-blocking-budget",), put({"maxUnavailable": 0}, "spec")),
        Mutation(
            "all available",
            ("rollout-disallow-blocking-budget",),
            lambda r: r["spec"].pop("maxUnavailable") and r["spec"].update(minAvailable="100%"),
        ),
        Mutation("nobody selected", ("stack-require-disruption-budget",), put({"matchLabels": {"app": "nobody"}}, "spec", "selector")),
        Mutation(
            "as many as replicas",
            ("stack-disallow-budget-of-all-replicas",),
            lambda r: r["spec"].pop("maxUnavailable") and r["spec"].update(minAvailable=99),
        ),
    ),
    "Namespace": (
        Mutation(
            "privileged namespace",
            ("namespace-require-pod-security",),
            put("privileged", "metadata", "labels", "pod-security.kubernetes.io/enforce"),
        ),
        Mutation(
            "unpinned profile",
            ("namespace-require-pod-security",),
            drop("metadata", "labels", "pod-security.kubernetes.io/enforce-version"),
        ),
    ),
    "ConfigMap": (
        Mutation("key in clear", ("secret-disallow-in-config-map",), put("0123456789", "data", "api-key")),
        Mutation("private key", ("secret-disallow-in-config-map",), put("-----BEGIN PRIVATE KEY-----", "data", "note")),
    ),
    "PersistentVolume": (
        Mutation("deleted volume", ("volume-require-retain",), put("Delete", "spec", "persistentVolumeReclaimPolicy")),
        Mutation("no mount options", ("volume-require-nfs-options",), lambda r: "nfs" in r["spec"] and drop("spec", "mountOptions")(r)),
    ),
    "BucketPublicAccessBlock": tuple(
        Mutation(name, ("s3-disallow-public-access",), put(False, name))
        for name in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    ),
    "BucketVersioning": (Mutation("no versions", ("s3-require-versioning",), put("Suspended", "versioningConfiguration", "status")),),
    "BucketPolicy": (
        Mutation(
            "public bucket",
            ("s3-disallow-public-policy",),
            put('{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}]}', "policy"),
        ),
        Mutation("clear text", ("s3-require-tls",), put('{"Statement": []}', "policy")),
    ),
    "Bucket": (Mutation("public ACL", ("s3-disallow-public-acl",), put("public-read", "acl")),),
    "FileSystem": (Mutation("clear file system", ("efs-require-encryption",), put(False, "encrypted")),),
    "Cluster": (
        Mutation(
            "public endpoint",
            ("eks-disallow-public-endpoint",),
            lambda r: r["vpcConfig"].update(endpointPublicAccess=True, publicAccessCidrs=["0.0.0.0/0"]),
        ),
        Mutation("no audit", ("eks-require-logs",), put(["api"], "enabledClusterLogTypes")),
        Mutation("no encryption", ("eks-require-secret-encryption",), drop("encryptionConfig")),
        Mutation("old Kubernetes", ("eks-require-supported-version",), put("1.27", "version")),
    ),
    "NodeGroup": (Mutation("Amazon Linux 2", ("eks-disallow-amazon-linux-2",), put("AL2_x86_64_GPU", "amiType")),),
    "LaunchTemplate": (
        Mutation("IMDSv1", ("ec2-require-imdsv2",), put("optional", "metadataOptions", "httpTokens")),
        Mutation("two hops", ("ec2-require-imdsv2",), put(2, "metadataOptions", "httpPutResponseHopLimit")),
        Mutation(
            "clear disks",
            ("ec2-require-encrypted-volumes",),
            _clear_disks,
        ),
    ),
    "SecurityGroup": (
        Mutation(
            "open group",
            ("ec2-disallow-open-ingress",),
            add({"protocol": "tcp", "fromPort": 8000, "toPort": 8000, "cidrBlocks": ["0.0.0.0/0"]}, "ingress"),
        ),
    ),
    "RolePolicy": (
        Mutation(
            "every action",
            ("iam-disallow-wildcard-actions",),
            put('{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "arn:x"}]}', "policy"),
        ),
        Mutation(
            "every resource",
            ("iam-disallow-wildcard-resources",),
            put('{"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}', "policy"),
        ),
    ),
    "Role": (
        Mutation(
            "anybody",
            ("iam-disallow-wildcard-principal",),
            put('{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}', "assumeRolePolicy"),
        ),
    ),
    "RolePolicyAttachment": (
        Mutation(
            "administrator", ("iam-disallow-broad-managed-policies",), put("arn:aws:iam::aws:policy/AdministratorAccess", "policyArn")
        ),
    ),
}
