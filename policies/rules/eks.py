"""EKS clusters and node groups."""

from __future__ import annotations

from policies.engine.resource import Resource, objects
from policies.engine.rule import Parameters, Severity, Violations, parameter, resource_rule, violation
from policies.subjects.networks import block_of, is_internet
from policies.subjects.programs import at_least


@resource_rule(objects("aws:eks:NodeGroup"), Severity.HIGH, "Security Hub EKS.2", "inference")
def eks_disallow_amazon_linux_2(group: Resource, _: Parameters) -> Violations:
    """Nodes run a maintained operating system.

    Why: AWS stopped releasing Amazon Linux 2 images for EKS on 2025-11-26, so their drivers and kernels get no fixes.
    Remedy: use AL2023_x86_64_NVIDIA, AL2023_x86_64_STANDARD or BOTTLEROCKET_x86_64_NVIDIA.
    """
    if group.at("amiType").text().startswith("AL2_"):
        yield violation(group.at("amiType"), "is Amazon Linux 2")


@resource_rule(objects("aws:eks:Cluster"), Severity.CRITICAL, "Security Hub EKS.1", "CIS EKS 5.4.1", "CKV_AWS_38", "CKV_AWS_39")
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
@resource_rule(objects("aws:eks:Cluster"), Severity.MEDIUM, "Security Hub EKS.8", "CIS EKS 2.1.1", "CKV_AWS_37")
def eks_require_logs(cluster: Resource, parameters: Parameters) -> Violations:
    """The cluster keeps its audit log.

    Why: Without the audit log you cannot tell who read a Secret.
    Remedy: set enabledClusterLogTypes: [api, audit, authenticator].
    """
    enabled = cluster.at("enabledClusterLogTypes").texts()
    for type_ in parameters["types"]:
        if type_ not in enabled:
            yield violation(cluster.at("enabledClusterLogTypes"), f"does not include {type_}")


@resource_rule(objects("aws:eks:Cluster"), Severity.HIGH, "Security Hub EKS.3", "CIS EKS 5.3.1", "CKV_AWS_58")
def eks_require_secret_encryption(cluster: Resource, _: Parameters) -> Violations:
    """Kubernetes Secrets are encrypted with your own KMS key.

    Why: etcd contains the API keys. A KMS key controls who can read its backups.
    Remedy: set encryptionConfig with resources: [secrets] and a KMS key.
    """
    if "secrets" not in cluster.at("encryptionConfig", "resources").texts():
        yield violation(cluster.at("encryptionConfig", "resources"), "does not include secrets")


@parameter("oldest", "1.34", "Oldest minor version of Kubernetes that is allowed")
@resource_rule(objects("aws:eks:Cluster"), Severity.HIGH, "Security Hub EKS.2", "CKV_AWS_339")
def eks_require_supported_version(cluster: Resource, parameters: Parameters) -> Violations:
    """The cluster runs a supported Kubernetes version.

    Why: A version past standard support costs six times as much and is finally upgraded by AWS.
    Remedy: set version to 1.35 or newer; AWS supports 1.34 until 2026-12-02.
    """
    version = cluster.at("version")
    if not version.text():
        yield violation(version, "is not set")
    elif not at_least(version.text(), parameters["oldest"]):
        yield violation(version, f"is older than {parameters['oldest']}")
