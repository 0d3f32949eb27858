"""IAM policy documents: the principals that may assume a role, and the permissions of the role.

Every document lists its actions and resources. The two places where AWS requires a wildcard say why.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_aws import iam

Document = dict[str, Any]
Statement = dict[str, Any]

POD_IDENTITY = "pods.eks.amazonaws.com"
ROLE_NAME = 64
"""Maximum length of the name of an IAM role."""


def document(*statements: Statement) -> Document:
    """Return a policy document with `statements`."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def service_trust(service: str) -> Document:
    """Return a trust policy for the AWS service `service`, for example ec2.amazonaws.com."""
    return document({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"})


def pod_identity_trust(*, cluster: str, namespace: str, account: str) -> Document:
    """Return a trust policy for pods of one service account of one cluster with EKS Pod Identity.

    The association already limits the role to them; the tags, which EKS sets, exclude every other association.
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
    """Return a trust policy for pods of one service account with the cluster's OIDC provider. `issuer` has no https://."""
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
    """Return permission to read and list the objects below `prefix` of `bucket`, or the whole bucket if `prefix` is empty."""
    arn = f"arn:aws:s3:::{bucket}"
    # The names of the objects are not known: the star matches them and stays below the prefix.
    objects = f"{arn}/{prefix}/*" if prefix else f"{arn}/*"
    listing: Statement = {"Sid": "List", "Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn}
    if prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": [f"{prefix}/", f"{prefix}/*"]}}
    return document({"Sid": "Read", "Effect": "Allow", "Action": "s3:GetObject", "Resource": objects}, listing)


def key_use(*, key_arn: pulumi.Input[str], region: str) -> iam.PolicyDocumentArgs:
    """Return permission to decrypt with one KMS key, only for reads through S3 in `region`.

    Typed arguments instead of JSON: if the same update creates the key, only its ARN is unknown and the rest can be reviewed.
    """
    through = {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}}
    statement = iam.PolicyStatementArgs(effect=iam.PolicyStatementEffect.ALLOW, action="kms:Decrypt", resource=key_arn, condition=through)
    return iam.PolicyDocumentArgs(version=iam.PolicyDocumentVersion.POLICY_DOCUMENT_VERSION_2012_10_17, statement=[statement])


def tls_only(bucket: str) -> Document:
    """Return a bucket policy that denies every request without TLS.

    A Deny statement must cover all principals, actions and objects; anything that it omits would be allowed.
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
