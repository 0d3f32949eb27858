"""The kubeconfig of an EKS cluster for the Kubernetes provider. It contains a command instead of a token."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    from components.handles import EksClusterHandle


def kubeconfig(home: EksClusterHandle) -> pulumi.Output[str]:
    """Return a kubeconfig that gets tokens from the AWS CLI; it contains no secret."""
    return pulumi.Output.all(name=home.name, endpoint=home.endpoint, authority=home.certificate_authority).apply(
        lambda values: json.dumps(_kubeconfig(region=home.region, **values), sort_keys=True)
    )


def _kubeconfig(*, name: str, region: str, endpoint: str, authority: str) -> dict[str, object]:
    token = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", name, "--region", region, "--output", "json"],
        "interactiveMode": "Never",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": endpoint, "certificate-authority-data": authority}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": {"exec": token}}],
    }
