"""Cases of the rules on resources of AWS."""

from __future__ import annotations

import json
from base64 import b64encode

from tests.policies.cases import ABSENT, PASS, REFUSED, Row

_OTHER = {
    "Effect": "Allow",
    "Principal": {"AWS": "arn:aws:iam::999988887777:root"},
    "Action": "sts:AssumeRole",
}
_WITH_ID = {**_OTHER, "Condition": {"StringEquals": {"sts:ExternalId": "5c1d7f0e"}}}
_ANY_ID = {**_OTHER, "Condition": {"StringLike": {"sts:ExternalId": "*"}}}


def _document(*statements: object) -> str:
    return json.dumps({"Statement": list(statements)})


ROWS = (
    Row(
        "aws-restrict-other-accounts",
        "Role/reader",
        "assumeRolePolicy",
        _document(_OTHER),
        _document(_WITH_ID),
        PASS,
        more=((_document(_ANY_ID), REFUSED),),
    ),
    Row(
        "iam-disallow-escalation",
        "Policy/reader",
        "policy",
        _document(
            {
                "Effect": "Allow",
                "Action": "iam:AttachRolePolicy",
                "Resource": "arn:aws:iam::111122223333:role/reader",
            }
        ),
        _document(
            {
                "Effect": "Allow",
                "Action": "iam:GetRole",
                "Resource": "arn:aws:iam::111122223333:role/reader",
            }
        ),
        PASS,
        more=(
            (
                _document(
                    {
                        "Effect": "Allow",
                        "Action": "cloudtrail:Stop*",
                        "Resource": "arn:aws:cloudtrail:::trail/a",
                    }
                ),
                REFUSED,
            ),
            (_document({"Effect": "Deny", "Action": "iam:*", "Resource": "*"}), PASS),
            (
                _document(
                    {
                        "Effect": "Allow",
                        "Action": "iam:AttachRolePolicy",
                        "Resource": "arn:aws:iam::111122223333:role/reader",
                        "Condition": {
                            "ArnEquals": {"iam:PolicyARN": "arn:aws:iam::111122223333:policy/read"}
                        },
                    }
                ),
                PASS,
            ),
        ),
    ),
    Row(
        "s3-disallow-public-access",
        "BucketPublicAccessBlock/weights",
        "blockPublicPolicy",
        False,
        True,
        REFUSED,
    ),
    Row(
        "s3-disallow-public-acl",
        "BucketAcl/weights",
        "acl",
        "public-read",
        "log-delivery-write",
        PASS,
        more=(("authenticated-read", REFUSED),),
    ),
    Row(
        "s3-disallow-public-policy",
        "BucketPolicy/weights",
        "policy",
        '{"Statement": {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "s3:GetObject",'
        ' "Resource": "*"}}',
        '{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}}',
        PASS,
        more=(("not a document", REFUSED),),
    ),
    Row("efs-require-encryption", "FileSystem/shared", "encrypted", False, True, REFUSED),
    Row(
        "iam-disallow-wildcard-actions",
        "Policy/reader",
        "policy",
        '{"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource":'
        ' "arn:aws:s3:::acme-weights/*"}]}',
        '{"Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}',
        PASS,
        more=(
            (
                '{"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}',
                REFUSED,
            ),
        ),
    ),
    Row(
        "iam-disallow-wildcard-resources",
        "Policy/reader",
        "policy",
        '{"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}',
        '{"Statement": [{"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource":'
        ' "*"}]}',
        PASS,
    ),
    Row(
        "iam-disallow-wildcard-principal",
        "Role/reader",
        "assumeRolePolicy",
        '{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}',
        '{"Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"},'
        ' "Action": "sts:AssumeRole"}]}',
        PASS,
    ),
    Row(
        "iam-disallow-broad-managed-policies",
        "RolePolicyAttachment/reader",
        "policyArn",
        "arn:aws:iam::aws:policy/AmazonS3FullAccess",
        "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess",
        PASS,
    ),
    Row(
        "eks-disallow-public-endpoint",
        "Cluster/main",
        "vpcConfig",
        {"endpointPublicAccess": True},
        {
            "endpointPublicAccess": True,
            "endpointPrivateAccess": True,
            "publicAccessCidrs": ["192.0.2.0/24"],
        },
        REFUSED,
    ),
    Row(
        "aws-restrict-settings",
        "Cluster/main",
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        True,
        False,
        PASS,
    ),
    Row(
        "aws-restrict-settings",
        "Cluster/main",
        "accessConfig.authenticationMode",
        "CONFIG_MAP",
        "API",
        PASS,
    ),
    Row(
        "aws-restrict-settings",
        "LaunchTemplate/l40s",
        "networkInterfaces",
        [{"associatePublicIpAddress": "true"}],
        [{"associatePublicIpAddress": "false"}],
        PASS,
    ),
    Row(
        "ec2-require-encrypted-volumes",
        "NodeGroup/l40s",
        "launchTemplate",
        ABSENT,
        {"id": "lt-2"},
        REFUSED,
    ),
    Row(
        "eks-require-logs",
        "Cluster/main",
        "enabledClusterLogTypes",
        ["api"],
        ["api", "audit", "authenticator", "scheduler"],
        REFUSED,
    ),
    Row(
        "eks-require-secret-encryption",
        "Cluster/main",
        "encryptionConfig.resources",
        [],
        ["secrets"],
        REFUSED,
    ),
    Row("eks-require-supported-version", "Cluster/main", "version", "1.29", "1.34", REFUSED),
    Row(
        "eks-disallow-amazon-linux-2",
        "NodeGroup/l40s",
        "amiType",
        "AL2_x86_64_GPU",
        "AL2023_x86_64_STANDARD",
        PASS,
    ),
    Row(
        "ec2-disallow-piped-programs",
        "LaunchTemplate/l40s",
        "userData",
        "#!/bin/bash\ncurl -s https://x.example/install | bash\n",
        "#!/bin/bash\ncurl -so /opt/x https://x.example/x && sha256sum -c /opt/x.sha256\n",
        PASS,
        more=((b64encode(b"#!/bin/sh\nwget -qO- http://x.example/i | sudo sh").decode(), REFUSED),),
    ),
    Row(
        "ec2-require-imdsv2",
        "LaunchTemplate/l40s",
        "metadataOptions.httpTokens",
        "optional",
        "required",
        REFUSED,
    ),
    Row(
        "ec2-require-encrypted-volumes",
        "LaunchTemplate/l40s",
        "blockDeviceMappings[0].ebs.encrypted",
        "false",
        True,
        REFUSED,
    ),
    Row(
        "ec2-disallow-open-ingress",
        "SecurityGroup/efa",
        "ingress",
        [{"protocol": "tcp", "fromPort": 8000, "toPort": 8000, "cidrBlocks": ["0.0.0.0/0"]}],
        [{"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/8"]}],
        PASS,
        more=(
            (
                [{"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["0.0.0.0/0"]}],
                REFUSED,
            ),
        ),
    ),
    Row(
        "accelerator-require-pool-taint",
        "NodePool/gpu",
        "spec.template.spec.taints",
        [{"key": "nvidia.com/gpu", "effect": "PreferNoSchedule"}],
        [{"key": "acme.example/gpu", "effect": "NoExecute"}],
        REFUSED,
    ),
)
