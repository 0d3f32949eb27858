"""EKS clusters and node groups, and settings of AWS networks, keys and registries."""

import json
import re
from typing import Any

from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
)
from inferplan.policies.subjects.networks import block_of, is_internet
from inferplan.policies.subjects.programs import at_least
from inferplan.policies.subjects.tables import Table
from inferplan.tables import table

_ROOT = re.compile(r"arn:[^:]*:iam::[0-9]{12}:root")
_READS_SECRETS = re.compile(r"/AmazonEKS(Cluster)?Admin(View)?Policy\Z")
_CLUSTER_ADMIN, _ASSOCIATION = "/AmazonEKSClusterAdminPolicy", "aws:eks:AccessPolicyAssociation"
_BUCKETS = ("aws:s3:Bucket", "aws:s3:BucketV2")

_TABLE = Table(table("policies/rules/aws_settings.toml")["row"])
KINDS = _TABLE.subject(_ASSOCIATION, "aws:ec2:VpcEndpoint")


@resource_rule(KINDS)
def aws_restrict_settings(resource: Resource, parameters: Parameters) -> Violations:
    yield from _TABLE.check(resource, parameters)
    if resource.kind == "aws:eks:AccessEntry":
        yield from _entry_violations(resource)
    if resource.kind == _ASSOCIATION:
        yield from _association_violations(resource)
    if resource.kind == "aws:lb:Listener":
        yield from _listener_violations(resource)
    if resource.kind == "aws:ec2:VpcEndpoint":
        yield from _endpoint_violations(resource)


@stack_rule
def stack_require_stated_powers(stack: Stack, _: Parameters) -> Violations:
    admins = {
        each
        for (kind, _), facts in stack.facts.items()
        if kind == "cluster"
        for each in facts.get("admins", ())
    }
    emptied = {
        name
        for (kind, name), facts in stack.facts.items()
        if kind == "store" and facts.get("protected") is False
    }
    for each in stack.of(_ASSOCIATION):
        with stack.unreadable:
            if (
                each.at("policyArn").text().endswith(_CLUSTER_ADMIN)
                and each.at("principalArn").text() not in admins
            ):
                yield violation(
                    each.at("policyArn"),
                    "makes its principal an administrator that the stack does not state",
                )
    for each in stack.of(*_BUCKETS):
        with stack.unreadable:
            # stack-require-protection reports a bucket without protection.
            stated = each.name in emptied and not (each.protect or each.retain_on_delete)
            if each.at("forceDestroy").value in (True, "true") and not stated:
                yield violation(each.at("forceDestroy"), "deletes every object with the bucket")


def _entry_violations(entry: Resource) -> Violations:
    # Entries of nodes take only the role of the nodes, which the same update may create.
    principal = entry.at("principalArn")
    if entry.at("type").text() in ("", "STANDARD") and _ROOT.search(principal.text()):
        yield violation(principal, "includes every principal of an account")


def _association_violations(association: Resource) -> Violations:
    policy = association.at("policyArn")
    if policy.text().endswith(_CLUSTER_ADMIN):
        return  # stack-require-stated-powers knows who may be one
    if association.at("accessScope", "type").text() == "cluster" and _READS_SECRETS.search(
        policy.text()
    ):
        yield violation(policy, "lets its principal read every Secret of the cluster")


def _listener_violations(listener: Resource) -> Violations:
    redirects = [
        each.at("type").text() == "redirect" for each in listener.at("defaultActions").each()
    ]
    if listener.at("protocol").text() in ("HTTP", "TCP") and not (redirects and all(redirects)):
        yield violation(listener.at("protocol"), "accepts requests without TLS")


def _endpoint_violations(endpoint: Resource) -> Violations:
    policy = endpoint.at("policy")
    try:
        statements = json.loads(policy.text() or "{}").get("Statement", [])
    except (ValueError, AttributeError):
        return
    for each in statements if isinstance(statements, list) else [statements]:
        if isinstance(each, dict) and [
            each.get("Effect"),
            _one(each.get("Action")),
            _one(each.get("Resource")),
        ] == ["Allow", "*", "*"]:
            yield violation(policy, "lets data leave to any account through the endpoint")


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


@resource_rule(objects("aws:eks:Cluster"))
def eks_disallow_public_endpoint(cluster: Resource, _: Parameters) -> Violations:
    vpc = cluster.at("vpcConfig")
    if vpc.at("endpointPublicAccess").flag() is not False:
        blocks = list(vpc.at("publicAccessCidrs").each())
        if not blocks or is_internet(map(block_of, blocks)):
            yield violation(vpc.at("endpointPublicAccess"), "opens the API server to the internet")
        if vpc.at("endpointPrivateAccess").flag() is not True:
            yield violation(
                vpc.at("endpointPrivateAccess"),
                "is not true, so nodes connect to the API server over the internet",
            )


@resource_rule(objects("aws:eks:Cluster"))
def eks_require_logs(cluster: Resource, parameters: Parameters) -> Violations:
    types = cluster.at("enabledClusterLogTypes")
    yield from (
        violation(types, f"does not include {each}")
        for each in parameters["types"]
        if each not in types.texts()
    )


@resource_rule(objects("aws:eks:Cluster"))
def eks_require_supported_version(cluster: Resource, parameters: Parameters) -> Violations:
    version, oldest = cluster.at("version"), parameters["oldest"]
    if not at_least(version.text(), oldest):
        yield violation(version, f"is older than {oldest}" if version.text() else "is not set")
