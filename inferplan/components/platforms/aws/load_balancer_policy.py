"""The permissions of the AWS Load Balancer Controller for the load balancers of one cluster.

Source: kubernetes-sigs/aws-load-balancer-controller v3.5.0, docs/install/iam_policy.json, read
2026-11. Narrower than that file: tags have the cluster's name as their value, listeners and rules
are limited by them too (the controller tags both), and Cognito, WAF, Shield, Global Accelerator,
IPAM and the search for certificates, which this stack does not use, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_aws import iam

from inferplan.components.platforms.aws.iam import Document, allow, document, partial_document
from inferplan.tables import table

_TAG = "elbv2.k8s.aws/cluster"
_IN_VPC = ("ec2:CreateSecurityGroup", "ec2:GetSecurityGroupsForVpc")
_ELB_KINDS = (
    "targetgroup/*/*",
    *(
        f"{kind}/{balancer}"
        for balancer in ("app", "net")
        for kind in ("loadbalancer", "listener", "listener-rule")
    ),
)


def controller_policy(region: str, cluster: str, vpc_name: str | None) -> Document:
    """Return the policy for the load balancers of `cluster` in `region`. `vpc_name` is the name of
    a created VPC, None for an existing one.
    """
    actions = table("components/platforms/aws/controllers.toml")["aws-load-balancer-controller"]
    vpc = f"arn:aws:ec2:{region}:*:vpc/*"
    in_vpc = (
        []
        if vpc_name is None
        else [allow("CreateInVpc", list(_IN_VPC), vpc, {"aws:ResourceTag/Name": vpc_name})]
    )
    ours, requested = {f"aws:ResourceTag/{_TAG}": cluster}, {f"aws:RequestTag/{_TAG}": cluster}
    groups = f"arn:aws:ec2:{region}:*:security-group/*"
    balancers = [
        f"arn:aws:elasticloadbalancing:{region}:*:{kind if kind.endswith('*') else f'{kind}/*'}"
        for kind in _ELB_KINDS
    ]
    rules = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
    return document(
        # AWS cannot limit these actions to a resource.
        allow("Describe", _describing(actions["describe"]), "*"),
        allow(
            "CreateServiceLinkedRole",
            ["iam:CreateServiceLinkedRole"],
            "arn:aws:iam::*:role/aws-service-role/elasticloadbalancing.amazonaws.com/AWSServiceRoleForElasticLoadBalancing",
            {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"},
        ),
        # EKS tags the security group of the nodes, to which the controller adds the rules for its
        # load balancers.
        allow(
            "OpenNodes",
            rules,
            groups,
            {f"aws:ResourceTag/kubernetes.io/cluster/{cluster}": "owned"},
        ),
        allow("CreateSecurityGroup", ["ec2:CreateSecurityGroup"], groups, requested),
        allow(
            "TagSecurityGroup",
            ["ec2:CreateTags"],
            groups,
            {"ec2:CreateAction": "CreateSecurityGroup", **requested},
        ),
        allow(
            "ChangeSecurityGroup",
            [*rules, "ec2:DeleteSecurityGroup", "ec2:CreateTags", "ec2:DeleteTags"],
            groups,
            ours,
        ),
        allow(
            "CreateBalancer",
            ["elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup"],
            balancers,
            requested,
        ),
        allow(
            "TagBalancer",
            ["elasticloadbalancing:AddTags"],
            balancers,
            {"elasticloadbalancing:CreateAction": actions["creations"], **requested},
        ),
        allow(
            "ChangeBalancer",
            [f"elasticloadbalancing:{each}" for each in actions["changes"]],
            balancers,
            ours,
        ),
        *in_vpc,
    )


def _describing(kinds: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{service}:Describe{each}" for service, names in kinds.items() for each in names]


def vpc_policy(vpc_arn: pulumi.Input[str]) -> iam.PolicyDocumentArgsDict:
    return partial_document(
        *({"Effect": "Allow", "Action": action, "Resource": vpc_arn} for action in _IN_VPC)
    )
