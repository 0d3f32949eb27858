"""The Kubernetes objects of components: the SDK's types for editors and type checkers, plain
resources at run time.

The SDK's classes and the types of their inputs take as long to import as everything else of a plan
together (0.4 of 1.4 s of processor time, 2026-11), and components pass dictionaries only. So at run
time `core.PodSpecArgsDict` is `dict`, and `core.Service` declares a resource of the same type with
the same inputs, written as the Kubernetes API writes them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pulumi

from inferplan.components.fields import manifest

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration import v1 as admission
    from pulumi_kubernetes.apiextensions import CustomResource
    from pulumi_kubernetes.apiextensions import v1 as extensions
    from pulumi_kubernetes.apps import v1 as apps
    from pulumi_kubernetes.autoscaling import v2 as autoscaling
    from pulumi_kubernetes.batch import v1 as batch
    from pulumi_kubernetes.core import v1 as core
    from pulumi_kubernetes.meta import v1 as meta
    from pulumi_kubernetes.networking import v1 as networking
    from pulumi_kubernetes.node import v1 as node
    from pulumi_kubernetes.policy import v1 as policy
    from pulumi_kubernetes.rbac import v1 as rbac
    from pulumi_kubernetes.resource import v1 as resource
else:

    class CustomResource(pulumi.CustomResource):
        """An object of any kind, its fields as keyword arguments. Objects refer to each other
        through `metadata`.
        """

        def __init__(
            self,
            name: str,
            *,
            api_version: str,
            kind: str,
            metadata: Any,
            opts: Any = None,
            **fields: Any,
        ) -> None:
            group = api_version if "/" in api_version else f"core/{api_version}"
            identity = {"apiVersion": api_version, "kind": kind, "metadata": manifest(metadata)}
            super().__init__(f"kubernetes:{group}:{kind}", name, {**identity, **fields}, opts)

    def _declare(
        api_version: str, kind: str, name: str, *, metadata: Any, opts: Any = None, **fields: Any
    ) -> CustomResource:
        if (api_version, kind) == ("v1", "Secret"):
            fields |= {
                field: pulumi.Output.secret(fields[field])
                for field in ("data", "string_data")
                if field in fields
            }
            opts = pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(additional_secret_outputs=["data", "stringData"])
            )
        return CustomResource(
            name,
            api_version=api_version,
            kind=kind,
            metadata=metadata,
            opts=opts,
            **manifest(fields),
        )

    class _Group:
        """The kinds of one API version, and `dict` for the types of their fields."""

        def __init__(self, api_version: str) -> None:
            self._api_version = api_version

        def __getattr__(self, name: str) -> Any:
            member = (
                dict if name.endswith("ArgsDict") else partial(_declare, self._api_version, name)
            )
            setattr(self, name, member)
            return member

    admission, extensions = (
        _Group("admissionregistration.k8s.io/v1"),
        _Group("apiextensions.k8s.io/v1"),
    )
    apps, autoscaling, batch, core, meta = map(
        _Group, ("apps/v1", "autoscaling/v2", "batch/v1", "v1", "meta/v1")
    )
    networking, node = _Group("networking.k8s.io/v1"), _Group("node.k8s.io/v1")
    policy, rbac = _Group("policy/v1"), _Group("rbac.authorization.k8s.io/v1")
    resource = _Group("resource.k8s.io/v1")

__all__ = [
    "CustomResource", "admission", "apps", "autoscaling", "batch", "core", "extensions", "meta", "networking", "node", "policy", "rbac",
    "resource",
]  # fmt: skip
