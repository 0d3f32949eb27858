"""IAM: policy documents, and the role that lets one service account read one directory of a bucket, by EKS Pod Identity or IRSA.

Every document lists its actions and resources. The two places where AWS requires a wildcard say why. A reader's role grants no write
access, no listing outside the directory, and nothing to other service accounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pulumi
from pulumi_aws import eks, iam

from components.handles import WorkloadIdentity
from components.naming import autonamed
from components.platforms.aws.cluster_spec import EksClusterHandle

Document = dict[str, Any]
Statement = dict[str, Any]

POD_IDENTITY = "pods.eks.amazonaws.com"
ROLE_NAME = 64
"""Maximum length of the name of an IAM role."""


def document(*statements: Statement) -> Document:
    """Return a policy document with `statements`."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def service_trust(service: str, *, tags_session: bool = False) -> Document:
    """Return a trust policy for the AWS service `service`, for example ec2.amazonaws.com. EKS Auto Mode also tags its sessions."""
    actions = ["sts:AssumeRole", "sts:TagSession"] if tags_session else "sts:AssumeRole"
    return document({"Effect": "Allow", "Principal": {"Service": service}, "Action": actions})


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


@dataclass(frozen=True, kw_only=True)
class ReadScope:
    """The directory `prefix` of a bucket in `region`. `bucket` is the live name, `bucket_name` the configured one."""

    bucket: pulumi.Input[str]
    bucket_name: str
    prefix: str
    region: str
    key_arn: pulumi.Input[str] | None = None


class StoreReader(pulumi.ComponentResource):
    """A role for `service_account` of `namespace` that reads `scope`; exports `identity`."""

    def __init__(
        self,
        name: str,
        *,
        home: EksClusterHandle,
        method: Literal["podIdentity", "irsa"],
        namespace: str,
        service_account: str,
        scope: ReadScope,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        intent = {"serviceAccount": service_account, "bucket": scope.bucket_name, "prefix": scope.prefix, "method": method}
        super().__init__("inferplan:identity:StoreReader", name, {"spec": intent}, opts)
        child = pulumi.ResourceOptions(parent=self)
        trust = trust_of(home, method, namespace, service_account)
        role = iam.Role(autonamed(name, ROLE_NAME), assume_role_policy=pulumi.Output.json_dumps(trust), opts=child)
        objects = pulumi.Output.from_input(scope.bucket).apply(lambda bucket: objects_read(bucket=bucket, prefix=scope.prefix))
        rights: list[pulumi.Resource] = [
            iam.RolePolicy(f"{name}-objects", role=role.name, policy=pulumi.Output.json_dumps(objects), opts=child)
        ]
        if scope.key_arn is not None:
            use = key_use(key_arn=scope.key_arn, region=scope.region)
            # Sequential, so that waiting for the last one waits for both.
            second = pulumi.ResourceOptions(parent=self, depends_on=list(rights))
            rights.append(iam.RolePolicy(f"{name}-key", role=role.name, policy=use, opts=second))
        # Pods get their credentials at admission, so the role needs its permissions before any pod starts.
        after = pulumi.ResourceOptions(parent=self, depends_on=rights)
        if method == "irsa":
            annotations: dict[str, pulumi.Input[str]] = {"eks.amazonaws.com/role-arn": role.arn}
            ready: pulumi.Resource = rights[-1]
        else:
            annotations = {}
            ready = eks.PodIdentityAssociation(
                name, cluster_name=home.name, namespace=namespace, service_account=service_account, role_arn=role.arn, opts=after
            )
        self.identity: WorkloadIdentity = WorkloadIdentity(service_account=service_account, annotations=annotations, ready=ready)
        self.register_outputs({"role": role.arn})


def trust_of(
    home: EksClusterHandle, method: Literal["podIdentity", "irsa"], namespace: str, account: str
) -> pulumi.Output[dict[str, object]]:
    """Return the trust policy for pods of one service account, by the cluster's `method`."""
    if method == "podIdentity":
        name = pulumi.Output.from_input(home.name)
        return name.apply(lambda cluster: pod_identity_trust(cluster=cluster, namespace=namespace, account=account))
    return pulumi.Output.all(home.oidc_provider_arn, home.oidc_issuer).apply(
        lambda oidc: irsa_trust(provider_arn=oidc[0], issuer=oidc[1], namespace=namespace, account=account)
    )
