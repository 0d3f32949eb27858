"""Cases of the rules on resources of AWS."""

from __future__ import annotations

from tests.policies.cases import ABSENT, PASS, REFUSED, Row


def row(rule, resource, path, bad, near, absent, **more):
    return Row(rule=rule, resource=resource, path=path, bad=bad, near=near, absent=absent, **more)


ROWS = (
    row("s3-disallow-public-access", "BucketPublicAccessBlock/weights", "blockPublicPolicy", False, True, REFUSED),
    row(
        "s3-disallow-public-acl",
        "BucketAcl/weights",
        "acl",
        "public-read",
        "log-delivery-write",
        PASS,
        more=(("authenticated-read", REFUSED),),
    ),
    row(
        "s3-disallow-public-policy",
        "BucketPolicy/weights",
        "policy",
        '{"Statement": {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "s3:GetObject", "Resource": "*"}}',
        '{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}}',
        PASS,
        more=(("not a document", REFUSED),),
    ),
    row("efs-require-encryption", "FileSystem/shared", "encrypted", False, True, REFUSED),
    row(
        "iam-disallow-wildcard-actions",
        "Policy/reader",
        "policy",
        '{"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::acme-weights/*"}]}',
        '{"Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}',
        PASS,
        more=(('{"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}', REFUSED),),
    ),
    row(
        "iam-disallow-wildcard-resources",
        "Policy/reader",
        "policy",
        '{"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}',
        '{"Statement": [{"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"}]}',
        PASS,
    ),
    row(
        "iam-disallow-wildcard-principal",
        "Role/reader",
        "assumeRolePolicy",
        '{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}',
        '{"Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}',
        PASS,
    ),
    row(
        "iam-disallow-broad-managed-policies",
        "RolePolicyAttachment/reader",
        "policyArn",
        "arn:aws:iam::aws:policy/AmazonS3FullAccess",
        "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess",
        PASS,
    ),
    row(
        "eks-disallow-public-endpoint",
        "Cluster/main",
        "vpcConfig",
        {"endpointPublicAccess": True},
        {"endpointPublicAccess": True, "endpointPrivateAccess": True, "publicAccessCidrs": ["192.0.2.0/24"]},
        REFUSED,
    ),
    row("aws-restrict-settings", "Cluster/main", "accessConfig.bootstrapClusterCreatorAdminPermissions", True, False, PASS),
    row("aws-restrict-settings", "Cluster/main", "accessConfig.authenticationMode", "CONFIG_MAP", "API", PASS),
    row(
        "aws-restrict-settings",
        "LaunchTemplate/l40s",
        "networkInterfaces",
        [{"associatePublicIpAddress": "true"}],
        [{"associatePublicIpAddress": "false"}],
        PASS,
    ),
    row("ec2-require-encrypted-volumes", "NodeGroup/l40s", "launchTemplate", ABSENT, {"id": "lt-2"}, REFUSED),
    row("eks-require-logs", "Cluster/main", "enabledClusterLogTypes", ["api"], ["api", "audit", "authenticator", "scheduler"], REFUSED),
    row("eks-require-secret-encryption", "Cluster/main", "encryptionConfig.resources", [], ["secrets"], REFUSED),
    row("eks-require-supported-version", "Cluster/main", "version", "1.29", "1.34", REFUSED),
    row("eks-disallow-amazon-linux-2", "NodeGroup/l40s", "amiType", "AL2_x86_64_GPU", "AL2023_x86_64_STANDARD", PASS),
    row("ec2-require-imdsv2", "LaunchTemplate/l40s", "metadataOptions.httpTokens", "optional", "required", REFUSED),
    row("ec2-require-encrypted-volumes", "LaunchTemplate/l40s", "blockDeviceMappings[0].ebs.encrypted", "false", True, REFUSED),
    row(
        "ec2-disallow-open-ingress",
        "SecurityGroup/efa",
        "ingress",
        [{"protocol": "tcp", "fromPort": 8000, "toPort": 8000, "cidrBlocks": ["0.0.0.0/0"]}],
        [{"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["0.0.0.0/0"]}],
        PASS,
    ),
)
