"""The AWS role that lets one service account read one directory of a bucket, by EKS Pod Identity or IRSA.

It grants no write access, no listing outside the directory, and nothing to other service accounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pulumi
from pulumi_aws import eks, iam

from components.handles import WorkloadIdentity
from components.naming import autonamed
from components.platforms.aws.cluster_spec import EksClusterHandle
from components.platforms.aws.iam import ROLE_NAME, irsa_trust, key_use, objects_read, pod_identity_trust


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
        trust = _trust(home, method, namespace, service_account)
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


def _trust(
    home: EksClusterHandle, method: Literal["podIdentity", "irsa"], namespace: str, account: str
) -> pulumi.Output[dict[str, object]]:
    if method == "podIdentity":
        name = pulumi.Output.from_input(home.name)
        return name.apply(lambda cluster: pod_identity_trust(cluster=cluster, namespace=namespace, account=account))
    return pulumi.Output.all(home.oidc_provider_arn, home.oidc_issuer).apply(
        lambda oidc: irsa_trust(provider_arn=oidc[0], issuer=oidc[1], namespace=namespace, account=account)
    )
