"""Objects of Kubernetes: fields with one safe value, which need no code."""

from __future__ import annotations

from inferplan.policies.engine.resource import Resource
from inferplan.policies.engine.rule import Parameters, Severity, Violations, resource_rule
from inferplan.policies.subjects.tables import subject_of, violations_in

TABLE = "object_settings"


@resource_rule(
    subject_of(TABLE), Severity.HIGH, "Kubernetes: Good practices; Karpenter: NodePools; External Secrets: Multi tenancy; inference"
)
def object_restrict_settings(resource: Resource, _: Parameters) -> Violations:
    """Objects have no setting that opens the cluster, its nodes or its secrets.
    Why: Each of these settings alone affects workloads, nodes or secrets that the stack does not name.
    Remedy: set the field to a safe value, or remove it.
    """
    yield from violations_in(TABLE, resource)
