"""IAM: policy documents, and the role that lets one service account read one directory of a bucket,
by EKS Pod Identity or IRSA.

Every document lists its actions and resources. The two places where AWS requires a wildcard say
why. A reader's role grants no write access, no listing outside the directory, and nothing to other
service accounts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import pulumi
from pulumi_aws import eks, iam

from inferplan.components.naming import autonamed, bounded, content_key
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.sources import WorkloadIdentity

Document = dict[str, Any]
Statement = dict[str, Any]

ROLE_NAME = 64
"""Maximum length of the name of an IAM role."""


def document(*statements: Statement) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def partial_document(*statements: Statement) -> iam.PolicyDocumentArgsDict:
    """Return a document in which a plan shows everything except the values that are not known yet,
    instead of nothing as in JSON.
    """
    return cast("iam.PolicyDocumentArgsDict", document(*statements))


def allow(
    sid: str,
    action: str | Sequence[str],
    resource: pulumi.Input[str] | Sequence[str],
    equals: Mapping[str, Any] | None = None,
) -> Statement:
    """Return a statement that allows `action` on `resource`, if the condition keys in `equals` have
    these values.
    """
    condition = {} if equals is None else {"Condition": {"StringEquals": equals}}
    return {"Sid": sid, "Effect": "Allow", "Action": action, "Resource": resource, **condition}


def _trust_document(
    principal: Mapping[str, str], action: str | list[str], equals: Mapping[str, str] | None = None
) -> Document:
    condition = {} if equals is None else {"Condition": {"StringEquals": equals}}
    return document({"Effect": "Allow", "Principal": principal, "Action": action, **condition})


def service_trust(service: str, *, tags_session: bool = False) -> Document:
    """Return a trust policy for the AWS service `service`, for example ec2.amazonaws.com. EKS Auto
    Mode also tags its sessions.
    """
    return _trust_document(
        {"Service": service},
        ["sts:AssumeRole", "sts:TagSession"] if tags_session else "sts:AssumeRole",
    )


def pod_identity_trust(*, cluster: str, namespace: str, account: str) -> Document:
    """Return a trust policy for pods of one service account of one cluster with EKS Pod Identity.

    The association already limits the role to them; the tags, which EKS sets, exclude every other
    association.
    """
    tags = {
        "eks-cluster-name": cluster,
        "kubernetes-namespace": namespace,
        "kubernetes-service-account": account,
    }
    expected = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
    return _trust_document(
        {"Service": "pods.eks.amazonaws.com"}, ["sts:AssumeRole", "sts:TagSession"], expected
    )


def irsa_trust(
    *, provider_arn: pulumi.Output[str], issuer: pulumi.Output[str], namespace: str, account: str
) -> iam.PolicyDocumentArgsDict:
    """Return a trust policy for pods of one service account with the cluster's OIDC provider.
    `issuer` has no https://.

    The id of a new cluster's issuer is known only after an update; a plan shows the rest.
    """
    subject = f"system:serviceaccount:{namespace}:{account}"
    expected = issuer.apply(
        lambda host: {f"{host}:aud": "sts.amazonaws.com", f"{host}:sub": subject}
    )
    condition = {"StringEquals": expected}
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": provider_arn},
        "Action": "sts:AssumeRoleWithWebIdentity",
    }
    return partial_document({**statement, "Condition": condition})


def objects_read(*, bucket: str, prefix: str) -> Document:
    """Return permission to read and list the objects below `prefix` of `bucket`, or the whole
    bucket if `prefix` is empty.
    """
    arn = f"arn:aws:s3:::{bucket}"
    # The names of the objects are not known: the star matches them and stays below the prefix.
    objects = f"{arn}/{prefix}/*" if prefix else f"{arn}/*"
    listing = allow("List", "s3:ListBucket", arn)
    if prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": [f"{prefix}/", f"{prefix}/*"]}}
    return document(allow("Read", "s3:GetObject", objects), listing)


def key_use(*, key_arn: pulumi.Input[str], region: str) -> iam.PolicyDocumentArgsDict:
    """Return permission to decrypt with one KMS key, only for reads through S3 in `region`."""
    through = {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}}
    return partial_document(
        {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": key_arn, "Condition": through}
    )


def tls_only(bucket: str) -> Document:
    """Return a bucket policy that denies every request without TLS.

    A Deny statement must cover all principals, actions and objects; anything that it omits would be
    allowed.
    """
    arn, without_tls = f"arn:aws:s3:::{bucket}", {"Bool": {"aws:SecureTransport": "false"}}
    deny = {"Sid": "RefuseClearText", "Effect": "Deny", "Principal": "*", "Action": "s3:*"}
    return document({**deny, "Resource": [arn, f"{arn}/*"], "Condition": without_tls})


def access_point_only(system_arn: pulumi.Input[str], point_arn: pulumi.Input[str]) -> Document:
    """Return a file system policy that allows mounts only through the access point over TLS.
    Without one, EFS admits root from any mount target.
    """
    condition = {
        "Bool": {"elasticfilesystem:AccessedViaMountTarget": "true", "aws:SecureTransport": "true"},
        "StringEquals": {"elasticfilesystem:AccessPointArn": point_arn},
    }
    # Mounts have no AWS identity to name: the conditions decide.
    allowed = {
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
    }
    return document({**allowed, "Resource": system_arn, "Condition": condition})


@dataclass(frozen=True, kw_only=True)
class PodRole:
    """An AWS role for the pods of one service account, which needs `annotations`. Its pods start
    after `ready`.
    """

    name: pulumi.Output[str]
    arn: pulumi.Output[str]
    annotations: dict[str, pulumi.Input[str]]
    ready: pulumi.Resource


def pod_role(
    name: str,
    policies: Mapping[str, pulumi.Input[str | iam.PolicyDocumentArgsDict]],
    *,
    home: EksClusterHandle,
    method: Literal["podIdentity", "irsa"],
    namespace: str,
    parent: pulumi.Resource,
) -> PodRole:
    """Create the role of the service account `name` in `namespace` with the policies, by the
    cluster's `method`.
    """
    is_irsa = method == "irsa"
    # The annotation of IRSA contains the role's ARN. With a fixed name a plan shows it, without a
    # role that exists.
    fixed = (
        bounded(
            f"{home.spec_name}-{name}",
            content_key(home.region, home.spec_name, namespace, name),
            ROLE_NAME,
        )
        if is_irsa
        else None
    )
    role = iam.Role(
        autonamed(name, ROLE_NAME),
        name=fixed,
        assume_role_policy=_trust(home, method, namespace, name),
        permissions_boundary=home.boundary,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    rights: list[pulumi.Resource] = []
    for policy_name, policy in policies.items():
        # Sequential, so that waiting for the last one waits for all.
        after = pulumi.ResourceOptions(parent=parent, depends_on=list(rights))
        rights.append(iam.RolePolicy(policy_name, role=role.name, policy=policy, opts=after))
    if is_irsa:
        arn = pulumi.Output.concat("arn:aws:iam::", home.account, f":role/{fixed}")
        return PodRole(
            name=role.name,
            arn=role.arn,
            annotations={"eks.amazonaws.com/role-arn": arn},
            ready=rights[-1],
        )
    association = eks.PodIdentityAssociation(
        name,
        cluster_name=home.name,
        namespace=namespace,
        service_account=name,
        role_arn=role.arn,
        # Pods get their credentials at admission, so the role needs its permissions before any pod
        # starts.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=rights),
    )
    return PodRole(name=role.name, arn=role.arn, annotations={}, ready=association)


def _trust(
    home: EksClusterHandle, method: Literal["podIdentity", "irsa"], namespace: str, account: str
) -> pulumi.Output[str] | iam.PolicyDocumentArgsDict:
    if method == "irsa":
        return irsa_trust(
            provider_arn=home.oidc_provider_arn,
            issuer=home.oidc_issuer,
            namespace=namespace,
            account=account,
        )
    cluster = pulumi.Output.from_input(home.name)
    trust = cluster.apply(
        lambda name: pod_identity_trust(cluster=name, namespace=namespace, account=account)
    )
    return pulumi.Output.json_dumps(trust)


@dataclass(frozen=True, kw_only=True)
class ReadScope:
    """The directory `prefix` of a bucket in `region`. `bucket` is the live name, `bucket_name` the
    configured one.
    """

    bucket: pulumi.Input[str]
    bucket_name: str
    prefix: str
    region: str
    key_arn: pulumi.Input[str] | None = None


class StoreReader(pulumi.ComponentResource):
    """A role for `service_account` of `namespace` that reads `scope`; exports `identity`."""

    def __init__(
        self,
        service_account: str,
        *,
        home: EksClusterHandle,
        method: Literal["podIdentity", "irsa"],
        namespace: str,
        scope: ReadScope,
        opts: pulumi.ResourceOptions,
    ) -> None:
        intent = {
            "serviceAccount": service_account,
            "bucket": scope.bucket_name,
            "prefix": scope.prefix,
            "method": method,
        }
        super().__init__("inferplan:identity:StoreReader", service_account, {"spec": intent}, opts)
        objects = pulumi.Output.from_input(scope.bucket).apply(
            lambda name: objects_read(bucket=name, prefix=scope.prefix)
        )
        policies: dict[str, pulumi.Input[str | iam.PolicyDocumentArgsDict]] = {
            f"{service_account}-objects": pulumi.Output.json_dumps(objects)
        }
        if scope.key_arn is not None:
            policies[f"{service_account}-key"] = key_use(key_arn=scope.key_arn, region=scope.region)
        role = pod_role(
            service_account, policies, home=home, method=method, namespace=namespace, parent=self
        )
        self.identity: WorkloadIdentity = WorkloadIdentity(
            service_account=service_account, annotations=role.annotations, ready=role.ready
        )
        self.register_outputs({"role": role.arn})
