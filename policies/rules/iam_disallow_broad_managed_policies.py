"""No role has a broad managed policy."""

from __future__ import annotations

import re

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

BROAD = re.compile(r"/(AdministratorAccess|PowerUserAccess|IAMFullAccess|\w+FullAccess)\Z")


def _check(holder: Resource, _: Parameters) -> Findings:
    for place in (holder.at("policyArn"), *holder.at("managedPolicyArns").each()):
        if BROAD.search(place.text()):
            yield found(place, "gives full access to one or more services")


RULE = Rule(
    id="iam-disallow-broad-managed-policies",
    title="No role has a broad managed policy",
    severity=Severity.CRITICAL,
    refs=(
        "CIS AWS 1.16",
        "CKV_AWS_274",
    ),
    why="A managed policy such as AmazonS3FullAccess gives a pod every bucket of the account",
    remedy="attach your own policy that names actions and resources, for example s3:GetObject on the prefix of one bucket",
    subject=objects(
        "aws:iam:Role",
        "aws:iam:RolePolicyAttachment",
        "aws:iam:PolicyAttachment",
        "aws:iam:UserPolicyAttachment",
        "aws:iam:GroupPolicyAttachment",
    ),
    check=_check,
)
