"""The cluster that `inferplan doctor` examines: what the stack declares, what the cluster has, and
what the user may read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferplan.errors import DeniedError, OperationError
from inferplan.kube.pod_sets import pod_sets, templates_of
from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.stack import StackSettings
from inferplan.tables import table
from inferplan.workspace.declared import registered_objects
from inferplan.workspace.live import Get, LiveCluster, ObjectKey

# `nodes is forbidden: User "anna" cannot list resource "nodes" in API group "" at the cluster
# scope`
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group'
    r' "(?P<group>[^"]*)"'
)


@dataclass(frozen=True, kw_only=True)
class PodsOf:
    """The pods that one object of the stack keeps running: its name, their number, and their
    specification.
    """

    owner: str
    replicas: int
    spec: Mapping[str, Any]

    @property
    def containers(self) -> Sequence[Mapping[str, Any]]:
        return self.spec.get("containers") or ()

    def requested(self, resource: str, kind: str = "requests") -> list[Any]:
        """The quantity of `resource` that each container requests, or has as its limit."""
        return [
            (each.get("resources") or {}).get(kind, {}).get(resource, 0) for each in self.containers
        ]


@dataclass(frozen=True)
class ExaminedCluster:
    """A stack, and the cluster behind `context` of the user's kubeconfig."""

    settings: StackSettings
    recording: Recording
    live: LiveCluster
    context: str
    stack: str

    @property
    def kubectl(self) -> str:
        return f"kubectl --context {self.context}"

    def remedy(self, section: str, name: str) -> str:
        text = table("commands/doctor/remedies.toml")[section].get(name, "")
        cluster = self.settings.cluster
        values = {"CONTEXT": self.context}
        for word, field in (("CLUSTER", "name"), ("REGION", "region")):
            values[word] = getattr(cluster, field, word)
        return re.sub(r"\b(CONTEXT|CLUSTER|REGION)\b", lambda match: values[match[1]], text)

    @cached_property
    def declared(self) -> Mapping[ObjectKey, Mapping[str, Any]]:
        """The inputs of every object that the stack declares. They may contain secrets and unknown
        values.
        """
        return {
            key: each.inputs
            for each, key in registered_objects(self.recording, self.settings.namespace)
        }

    def of_kind(self, kind: str) -> Iterator[tuple[ObjectKey, Mapping[str, Any]]]:
        yield from ((key, inputs) for key, inputs in self.declared.items() if key.kind == kind)

    @cached_property
    def pods(self) -> Sequence[PodsOf]:
        pods = []
        for each, _ in registered_objects(self.recording, self.settings.namespace):
            templates = templates_of(each.type, each.inputs)
            sets = pod_sets(each.type, each.urn, each.name, each.inputs)
            numbers = [one.replicas for one in sets]
            if each.type == "kubernetes:batch/v1:Job":
                templates, numbers = [each.inputs["spec"]["template"]], [1]
            owner = f"{each.type.rpartition(':')[2]} {each.name}"
            pods += [
                PodsOf(owner=owner, replicas=n, spec=one["spec"])
                for one, n in zip(templates, numbers, strict=True)
            ]
        return pods

    def nodes(self) -> list[Mapping[str, Any]]:
        return list(self.live.objects("v1", "Node").values())

    @property
    def namespace_exists(self) -> bool:
        return self.live.find(ObjectKey("v1", "Namespace", "", self.settings.namespace)) is not None


def permission_aware(get: Get, kubectl: str) -> Get:
    """`get` with an error that names the missing right and the command that grants it. `kubectl`
    starts that command.
    """

    def ask(path: str) -> Mapping[str, Any]:
        try:
            return get(path)
        except OperationError as failed:
            denied = _FORBIDDEN.search(str(failed))
            if denied is None:
                raise
            resource = ".".join(filter(None, (denied["resource"], denied["group"])))
            name = f"inferplan-doctor-{denied['resource']}"
            remedy = (
                f"{kubectl} create clusterrole {name} --verb=get,list --resource={resource} &&"
                f" {kubectl} create clusterrolebinding {name} --clusterrole={name}"
                f" --user='{denied['user']}'"
            )
            message = f"user {denied['user']!r} may not {denied['verb']} {resource}"
            raise DeniedError(
                message, permission=f"{denied['verb']} {resource}", remedy=remedy
            ) from failed

    return ask
