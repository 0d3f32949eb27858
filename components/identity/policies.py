"""IAM documents as plain data: who may assume a role, and the little that the role may do.

Every document names its actions and resources one by one. The two places where AWS itself asks for a wildcard say why.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_aws import iam

Document = dict[str, Any]
Statement = dict[str, Any]

POD_IDENTITY = "pods.eks.amazonaws.com"
ROLE_NAME = 64
"""The most characters that IAM takes as a role's name."""


def document(*statements: Statement) -> Document:
    """A policy document of `statements`."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def service_trust(service: str) -> Document:
    """Lets the AWS service `service` (such as ec2.amazonaws.com) assume a role."""
    return document({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"})


def pod_identity_trust(*, cluster: str, namespace: str, account: str) -> Document:
    """Lets pods of one service account of one cluster assume a role by EKS Pod Identity.

    The association alone would bind them too; the tags, which EKS sets, keep any other association from using the role.
    """
    tags = {"eks-cluster-name": cluster, "kubernetes-namespace": namespace, "kubernetes-service-account": account}
    return document(
        {
            "Effect": "Allow",
            "Principal": {"Service": POD_IDENTITY},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}},
        }
    )


def irsa_trust(*, provider_arn: str, issuer: str, namespace: str, account: str) -> Document:
    """Lets pods of one service account assume a role by the cluster's OIDC provider. `issuer` is its host and path, without https://."""
    expected = {f"{issuer}:aud": "sts.amazonaws.com", f"{issuer}:sub": f"system:serviceaccount:{namespace}:{account}"}
    return document(
        {
            "Effect": "Allow",
            "Principal": {"Federated": provider_arn},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": expected},
        }
    )


def objects_read(*, bucket: str, prefix: str) -> Document:
    """Reads the objects below `prefix` of `bucket`, and lists them; the whole bucket where `prefix` is empty."""
    arn = f"arn:aws:s3:::{bucket}"
    # The objects of a directory are not known one by one: the star stands for their names and crosses no prefix.
    objects = f"{arn}/{prefix}/*" if prefix else f"{arn}/*"
    listing: Statement = {"Sid": "List", "Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn}
    if prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": [f"{prefix}/", f"{prefix}/*"]}}
    return document({"Sid": "Read", "Effect": "Allow", "Action": "s3:GetObject", "Resource": objects}, listing)


def key_use(*, key_arn: pulumi.Input[str], region: str) -> iam.PolicyDocumentArgs:
    """Decrypts with one KMS key, and only what S3 of `region` reads.

    A document of arguments, not of text: a key that the same update makes leaves its ARN unknown, and the rest can be reviewed.
    """
    through = {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}}
    statement = iam.PolicyStatementArgs(effect=iam.PolicyStatementEffect.ALLOW, action="kms:Decrypt", resource=key_arn, condition=through)
    return iam.PolicyDocumentArgs(version=iam.PolicyDocumentVersion.POLICY_DOCUMENT_VERSION_2012_10_17, statement=[statement])


def tls_only(bucket: str) -> Document:
    """A bucket's policy that refuses every request in clear.

    A denial has to name everything (all principals, actions and objects), or what it leaves out stays open.
    """
    arn = f"arn:aws:s3:::{bucket}"
    return document(
        {
            "Sid": "RefuseClearText",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [arn, f"{arn}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )
