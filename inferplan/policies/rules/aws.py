"""EKS clusters and node groups, and settings of AWS networks, keys and registries."""

from __future__ import annotations

import json
import re
from typing import Any

from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Severity,
    Violations,
    parameter,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.networks import block_of, is_internet
from inferplan.policies.subjects.programs import at_least
from inferplan.policies.subjects.tables import subject_of, violations_in

_ROOT = re.compile(r"arn:[^:]*:iam::[0-9]{12}:root")
_READS_SECRETS = re.compile(r"/AmazonEKS(Cluster)?Admin(View)?Policy\Z")
_CLUSTER_ADMIN, _ASSOCIATION = "/AmazonEKSClusterAdminPolicy", "aws:eks:AccessPolicyAssociation"
_BUCKETS = ("aws:s3:Bucket", "aws:s3:BucketV2")


_TABLE = "aws_settings"
KINDS = subject_of(_TABLE, _ASSOCIATION, "aws:ec2:VpcEndpoint")


@resource_rule(KINDS, Severity.HIGH, "Security Hub EC2.9; EC2.15; EC2.25; ECR.1; ECR.2; ELB.1; ELB.4; CIS AWS 3.6; EKS best practices: IAM")
def aws_restrict_settings(resource: Resource, _: Parameters) -> Violations:
    """AWS networks, clusters, keys and registries follow AWS recommendations.
    Why: Each of these settings alone can expose a node, a cluster or a store.
    Remedy: set the field to a safe value.
    """
    yield from violations_in(_TABLE, resource)
    if resource.kind == "aws:eks:AccessEntry":
        yield from _entry_violations(resource)
    if resource.kind == _ASSOCIATION:
        yield from _association_violations(resource)
    if resource.kind == "aws:lb:Listener":
        yield from _listener_violations(resource)
    if resource.kind == "aws:ec2:VpcEndpoint":
        yield from _endpoint_violations(resource)


@stack_rule(Severity.HIGH, "EKS best practices: IAM; Security Hub: deletion protection")
def stack_require_stated_powers(stack: Stack, _: Parameters) -> Violations:
    """Administrators of a cluster, and buckets that a destroy empties, are those that the stack states.
    Why: Both are needed at times. Anywhere else they are a mistake or an attack.
    Remedy: name administrators under cluster.create.admins in the stack file, and let a bucket be emptied with retain: false under storage.
    """
    admins = {each for (kind, _), facts in stack.facts.items() if kind == "cluster" for each in facts.get("admins", ())}
    emptied = {name for (kind, name), facts in stack.facts.items() if kind == "store" and facts.get("protected") is False}
    for each in stack.of(_ASSOCIATION):
        with stack.unreadable:
            if each.at("policyArn").text().endswith(_CLUSTER_ADMIN) and each.at("principalArn").text() not in admins:
                yield violation(each.at("policyArn"), "makes its principal an administrator that the stack does not state")
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
    if association.at("accessScope", "type").text() == "cluster" and _READS_SECRETS.search(policy.text()):
        yield violation(policy, "lets its principal read every Secret of the cluster")


def _listener_violations(listener: Resource) -> Violations:
    redirects = [each.at("type").text() == "redirect" for each in listener.at("defaultActions").each()]
    if listener.at("protocol").text() in ("HTTP", "TCP") and not (redirects and all(redirects)):
        yield violation(listener.at("protocol"), "accepts requests without TLS")


def _endpoint_violations(endpoint: Resource) -> Violations:
    policy = endpoint.at("policy")
    try:
        statements = json.loads(policy.text() or "{}").get("Statement", [])
    except (ValueError, AttributeError):
        return
    for each in statements if isinstance(statements, list) else [statements]:
        if isinstance(each, dict) and [each.get("Effect"), _one(each.get("Action")), _one(each.get("Resource"))] == ["Allow", "*", "*"]:
            yield violation(policy, "lets data leave to any account through the endpoint")


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


@resource_rule(objects("aws:eks:NodeGroup"), Severity.HIGH, "Security Hub EKS.2; inference")
def eks_disallow_amazon_linux_2(group: Resource, _: Parameters) -> Violations:
    """Nodes run a maintained operating system.
    Why: AWS stopped releasing Amazon Linux 2 images for EKS on 2025-11-26, so their drivers and kernels get no fixes.
    Remedy: use AL2023_x86_64_NVIDIA, AL2023_x86_64_STANDARD or BOTTLEROCKET_x86_64_NVIDIA.
    """
    yield from violations(group.at("amiType"), lambda field: field.text().startswith("AL2_"), "is Amazon Linux 2")


@resource_rule(objects("aws:eks:Cluster"), Severity.CRITICAL, "Security Hub EKS.1; CIS EKS 5.4.1; CKV_AWS_38; CKV_AWS_39")
def eks_disallow_public_endpoint(cluster: Resource, _: Parameters) -> Violations:
    """The cluster's API server is not open to the internet.
    Why: With an open endpoint, one stolen token is enough to use the cluster.
    Remedy: set vpcConfig.endpointPublicAccess: false, or list the networks that may connect under publicAccessCidrs.
    """
    vpc = cluster.at("vpcConfig")
    if vpc.at("endpointPublicAccess").flag() is not False:
        blocks = list(vpc.at("publicAccessCidrs").each())
        if not blocks or is_internet(map(block_of, blocks)):
            yield violation(vpc.at("endpointPublicAccess"), "opens the API server to the internet")
        if vpc.at("endpointPrivateAccess").flag() is not True:
            yield violation(vpc.at("endpointPrivateAccess"), "is not true, so nodes connect to the API server over the internet")


@parameter("types", ["api", "audit", "authenticator"], "Log types that must be enabled")
@resource_rule(objects("aws:eks:Cluster"), Severity.MEDIUM, "Security Hub EKS.8; CIS EKS 2.1.1; CKV_AWS_37")
def eks_require_logs(cluster: Resource, parameters: Parameters) -> Violations:
    """The cluster keeps its audit log.
    Why: Without the audit log you cannot tell who read a Secret.
    Remedy: set enabledClusterLogTypes: [api, audit, authenticator].
    """
    types = cluster.at("enabledClusterLogTypes")
    yield from (violation(types, f"does not include {each}") for each in parameters["types"] if each not in types.texts())


@resource_rule(objects("aws:eks:Cluster"), Severity.HIGH, "Security Hub EKS.3; CIS EKS 5.3.1; CKV_AWS_58")
def eks_require_secret_encryption(cluster: Resource, _: Parameters) -> Violations:
    """Kubernetes Secrets are encrypted with your own KMS key.
    Why: etcd contains the API keys. A KMS key controls who can read its backups.
    Remedy: set encryptionConfig with resources: [secrets] and a KMS key.
    """
    resources = cluster.at("encryptionConfig", "resources")
    yield from violations(resources, lambda field: "secrets" not in field.texts(), "does not include secrets")


@parameter("oldest", "1.34", "Oldest minor version of Kubernetes that is allowed")
@resource_rule(objects("aws:eks:Cluster"), Severity.HIGH, "Security Hub EKS.2; CKV_AWS_339")
def eks_require_supported_version(cluster: Resource, parameters: Parameters) -> Violations:
    """The cluster runs a supported Kubernetes version.
    Why: A version past standard support costs six times as much and is finally upgraded by AWS.
    Remedy: set version to 1.35 or newer; AWS supports 1.34 until 2026-12-02.
    """
    version, oldest = cluster.at("version"), parameters["oldest"]
    if not at_least(version.text(), oldest):
        yield violation(version, f"is older than {oldest}" if version.text() else "is not set")
