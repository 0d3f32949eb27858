"""Who may use the API server of a created cluster: an access entry for each administrator, and a word to whoever is none.

Whoever creates a cluster gets no rights by that: what a stack grants would depend on who ran it first, and EKS refuses an entry
for somebody who has one already.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_aws import eks

from components.lookups import caller

_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def administrators(
    name: str, admins: Sequence[str], cluster: pulumi.Input[str], *, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Resource, ...]:
    """Full access to `cluster` for each of the principals `admins`; what must be there before the first of them uses it."""
    grants: list[pulumi.Resource] = []
    for arn in admins:
        # Kind and path are part of who it is: role/a-b, role/a/b and user/a-b are three principals.
        called = f"{name}-{arn.rpartition(':')[2]}"
        before = pulumi.Alias(name=f"{name}-{arn.partition('/')[2].replace('/', '-')}")
        options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[before]))
        entry = eks.AccessEntry(called, cluster_name=cluster, principal_arn=arn, opts=options)
        scope = eks.AccessPolicyAssociationAccessScopeArgs(type="cluster")
        grants.append(
            eks.AccessPolicyAssociation(
                called, cluster_name=cluster, principal_arn=entry.principal_arn, policy_arn=_ADMIN, access_scope=scope, opts=options
            )
        )
    return tuple(grants)


async def warn_stranger(admins: Sequence[str], options: pulumi.InvokeOptions) -> None:
    """Says at preview, and not after a cluster was made in a quarter of an hour, that its API server will refuse whoever runs this."""
    asking = await caller(options)
    if asking is not None and principal_of(asking) not in [_without_path(each) for each in admins]:
        pulumi.log.warn(
            f"cluster.create.admins: {asking} runs this and is none of them, so unless it has an access entry of its own the cluster "
            f"refuses it; add {principal_of(asking)} (with its path, if it has one), or run this as one of {', '.join(admins)}"
        )


def principal_of(caller_arn: str) -> str:
    """The role or user that `caller_arn` acts as, without its path, which the session of a role does not tell."""
    account, _, resource = caller_arn.split(":", 4)[4].partition(":")
    kind, _, rest = resource.partition("/")
    if kind == "assumed-role":
        return f"arn:aws:iam::{account}:role/{rest.partition('/')[0]}"
    return _without_path(caller_arn)


def _without_path(arn: str) -> str:
    head, _, rest = arn.partition("/")
    return f"{head}/{rest.rpartition('/')[2]}" if rest else head
