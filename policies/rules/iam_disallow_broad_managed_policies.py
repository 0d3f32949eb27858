"""No role is an administrator."""

from __future__ import annotations

import re

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

BROAD = re.compile(r"/(AdministratorAccess|PowerUserAccess|IAMFullAccess|\w+FullAccess)\Z")


def _check(holder: Resource, _: Parameters) -> Findings:
    for place in (holder.at("policyArn"), *holder.at("managedPolicyArns").each()):
        if BROAD.search(place.text()):
            yield found(place, "gives full access to a service or more")


RULE = Rule(
    id="iam-disallow-broad-managed-policies",
    title="No role is an administrator",
    severity=Severity.CRITICAL,
    refs=(
        "CIS AWS 1.16",
        "CKV_AWS_274",
    ),
    why="AmazonS3FullAccess and its like give a pod every bucket of the account",
    remedy="attach a policy of your own that names actions and resources, as s3:GetObject on one bucket's prefix",
    subject=objects(
        "aws:iam:Role",
        "aws:iam:RolePolicyAttachment",
        "aws:iam:PolicyAttachment",
        "aws:iam:UserPolicyAttachment",
        "aws:iam:GroupPolicyAttachment",
    ),
    check=_check,
)
