"""Access to the API server: a kubeconfig without a token, access entries for administrators, and a
warning to other callers.

Creating a cluster grants no access: otherwise the access would depend on who runs the stack first,
and EKS rejects a second entry for the same principal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi
from pulumi_aws import eks

from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.lookups import caller_arn, role_arn
from inferplan.components.platforms.aws.principals import principal_of, without_path


def administrators(
    name: str, admins: Sequence[str], cluster: pulumi.Input[str], *, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Resource, ...]:
    """Give each principal in `admins` full access to `cluster`; return the resources that must
    exist before they use it.
    """
    grants: list[pulumi.Resource] = []
    for arn in admins:
        # Kind and path are part of the identity: role/a-b, role/a/b and user/a-b are three
        # principals.
        entry_name = f"{name}-{arn.rpartition(':')[2]}"
        alias = pulumi.Alias(name=f"{name}-{arn.partition('/')[2].replace('/', '-')}")
        options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[alias]))
        grants.append(
            access_entry(entry_name, cluster, arn, "AmazonEKSClusterAdminPolicy", opts=options)
        )
    return tuple(grants)


def access_entry(
    name: str,
    cluster: pulumi.Input[str],
    principal: pulumi.Input[str],
    policy: str,
    *,
    kind: str | None = None,
    opts: pulumi.ResourceOptions,
) -> eks.AccessPolicyAssociation:
    """Give `principal` the access of `policy` to the whole of `cluster`."""
    entry = eks.AccessEntry(
        name, cluster_name=cluster, principal_arn=principal, type=kind, opts=opts
    )
    return eks.AccessPolicyAssociation(
        name,
        cluster_name=cluster,
        principal_arn=entry.principal_arn,
        policy_arn=f"arn:aws:eks::aws:cluster-access-policy/{policy}",
        access_scope={"type": "cluster"},
        opts=opts,
    )


async def warn_about_access(admins: Sequence[str], options: pulumi.InvokeOptions) -> None:
    """Warn at preview if the caller is not an administrator, instead of failing 15 minutes later
    when the cluster exists.
    """
    caller = await caller_arn(options)
    if caller is None:
        return
    principal = principal_of(caller)
    live = await role_arn(principal, options)
    own = live or without_path(principal)
    if own in (admins if live else [without_path(each) for each in admins]):
        return
    path = (
        ""
        if live or ":user/" in principal
        else (
            f" with its path (aws iam get-role --role-name {own.rpartition('/')[2]} --query"
            " Role.Arn)"
        )
    )
    pulumi.log.warn(
        f"cluster.create.admins does not include the caller {caller}, so the cluster will deny it"
        f" unless it has another access entry. Add {own}{path}, or run this as one of"
        f" {', '.join(admins)}."
    )


def kubeconfig(home: EksClusterHandle) -> pulumi.Output[str]:
    """Return a kubeconfig that gets tokens from the AWS CLI; it contains no secret."""
    values = pulumi.Output.all(
        name=home.name, endpoint=home.endpoint, authority=home.certificate_authority
    )
    return values.apply(
        lambda resolved: json.dumps(_kubeconfig(region=home.region, **resolved), sort_keys=True)
    )


def _kubeconfig(*, name: str, region: str, endpoint: str, authority: str) -> dict[str, object]:
    token = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": [
            "eks",
            "get-token",
            "--cluster-name",
            name,
            "--region",
            region,
            "--output",
            "json",
        ],
        "interactiveMode": "Never",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": endpoint, "certificate-authority-data": authority}}
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": {"exec": token}}],
    }
