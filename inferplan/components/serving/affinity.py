"""The affinity of a model's pods on the nodes of their pool: terms on nodes, and models to share
nodes with or to avoid.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from inferplan.components.handles import NodeTarget
from inferplan.components.naming import selector
from inferplan.components.spec import DnsLabel, LabelKey, LabelValue, Spec, renamed, rule
from inferplan.documents.errors import SpecError
from inferplan.kube.names import HOSTNAME_LABEL

_MODEL = "model"
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class NodeTerm(Spec):
    """A condition on a label of a node, as in Kubernetes."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    """The comparison."""
    values: list[LabelValue] = []
    """The values to compare with."""

    @rule
    def _values_fit_the_operator(self) -> Iterator[str]:
        if self.operator in ("Exists", "DoesNotExist"):
            if self.values:
                yield (
                    f"operator {self.operator} only checks that the label exists, and values has"
                    f" {len(self.values)}. Remove values"
                )
        elif self.operator in ("Gt", "Lt"):
            if len(self.values) != 1 or not re.fullmatch(r"-?[0-9]+", self.values[0]):
                yield (
                    f"operator {self.operator} compares with one whole number, and values is"
                    f' {self.values}. Write one, such as ["8"].'
                )
        elif not self.values:
            yield f"operator {self.operator} needs values. Write at least one."


class PreferredNodeTerm(NodeTerm):
    """A condition that preferred nodes meet."""

    weight: Annotated[int, Field(ge=1, le=100)] = 1
    """The weight among all preferences."""


class AffinitySpec(Spec):
    """Further terms on the nodes of pods, in addition to the pool's."""

    required_nodes: list[NodeTerm] = []
    """Conditions that a node of the pool must meet."""
    preferred_nodes: list[PreferredNodeTerm] = []
    """Conditions that preferred nodes of the pool meet."""
    pod_affinity: Annotated[list[DnsLabel], renamed("podAffinity", "beside")] = []
    """Models of this stack. Pods run only on nodes that run each of them."""
    pod_anti_affinity: Annotated[list[DnsLabel], renamed("podAntiAffinity", "apartFrom")] = []
    """Models of this stack. No pod runs on a node that runs one of them."""

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield terms that no node of the pool `target` can meet; paths start below `affinity`."""
        for index, term in enumerate(self.required_nodes):
            value = target.node_selector.get(term.key)
            met = {
                "In": value in term.values,
                "NotIn": value not in term.values,
                "DoesNotExist": False,
            }.get(term.operator, True)
            if value is not None and not met:
                yield SpecError(
                    ("requiredNodes", index),
                    f"every node of pool {target.pool!r} has {term.key}: {value}, so none meets"
                    f" {term.operator} {term.values}. Correct the term.",
                )

    def rendered(self) -> Mapping[str, Any]:
        """Return the pod's `affinity` in the spelling of the Kubernetes API; empty without terms."""
        nodes: dict[str, Any] = {}
        if self.required_nodes:
            nodes[_REQUIRED] = {"nodeSelectorTerms": [_expressions(self.required_nodes)]}
        if self.preferred_nodes:
            nodes[_PREFERRED] = [
                {"weight": each.weight, "preference": _expressions([each])}
                for each in self.preferred_nodes
            ]
        pods = {"podAffinity": self.pod_affinity, "podAntiAffinity": self.pod_anti_affinity}
        made = {
            key: {_REQUIRED: [_pods_of(each) for each in models]}
            for key, models in pods.items()
            if models
        }
        return {"nodeAffinity": nodes, **made} if nodes else made


def _expressions(terms: Iterable[NodeTerm]) -> dict[str, Any]:
    return {
        "matchExpressions": [
            each.model_dump(include={"key", "operator", *(["values"] if each.values else [])})
            for each in terms
        ]
    }


def _pods_of(model: str) -> dict[str, Any]:
    return {
        "topologyKey": HOSTNAME_LABEL,
        "labelSelector": {"matchLabels": selector(_MODEL, model)},
    }
