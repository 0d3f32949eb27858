"""The result of a stub operator for one object: children and status, as plain data."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplan.documents.templates import template

Object = dict[str, Any]
KEPT = "to roll out the change"
"""The end of the reason why children of an older template stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """The objects that `operator` would create for one object.

    Attributes:
        children: its children, complete except for their owner.
        condition: type of the condition that reports readiness.
        status: its status when it is ready, without conditions.
        settled: status of further conditions when it is ready, by type.
        endpoints: ready addresses that a Service of the children needs before the object is ready,
        by name. pod_labels: labels that the operator's webhook adds to single pods, by name.
        keep_reason: why the previous children stay, "" if these replace them.
    """

    operator: str
    children: tuple[Object, ...]
    condition: str
    status: Object
    settled: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, int] = field(default_factory=dict)
    pod_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keep_reason: str = ""

    @property
    def note(self) -> str:
        """The note for the reader: which operator is missing, and what the rehearsal did instead."""
        return (
            self.keep_reason
            or f"no {self.operator} runs here: the rehearsal created the pods that it would create; no container runs in them"
        )


def objects(name: str, parent: Object, **values: Any) -> tuple[Object, ...]:
    """The objects in the template `name`, in the namespace of `parent`. Raises KeyError for a field
    that is missing.
    """
    import yaml
    from jinja2 import UndefinedError

    metadata = parent["metadata"]
    source = template(f"rehearsal/apply/operators/{name}.yaml")
    try:
        text = source.render(name=metadata["name"], namespace=metadata["namespace"], **values)
    except UndefinedError as error:
        raise KeyError(str(error)) from error
    children = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or ()  # noqa: S506 - both are safe
    return tuple(
        {**each, "metadata": {**each["metadata"], "namespace": metadata["namespace"]}}
        for each in children
    )


def marked(template: Object, **marks: dict[str, str]) -> Object:
    """The pod template with additional `labels` and `annotations`."""
    metadata = template.get("metadata") or {}
    return {
        **template,
        "metadata": {
            **metadata,
            **{key: {**(metadata.get(key) or {}), **values} for key, values in marks.items()},
        },
    }


def with_environment(template: Object, variables: list[Object]) -> Object:
    """The pod template with `variables` before those of each container."""
    spec = template["spec"]
    lists = {
        key: [{**each, "env": [*variables, *(each.get("env") or [])]} for each in spec[key]]
        for key in ("initContainers", "containers")
        if spec.get(key)
    }
    return {**template, "spec": {**spec, **lists}}


def digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
