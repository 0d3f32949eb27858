"""What a stand-in makes for one object of an operator: its children, and the words for its status. Plain data, no requests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The `children` of an object, complete but for their owner; `operator` is who would make them, `status` what it then says.

    `condition` is the type of the condition that tells readiness, `settled` what further ones say once it holds. `endpoints` are the
    ready addresses that a Service of the children must have before that condition holds, by its name. `pod_labels` are what the
    operator's webhook adds to single pods as they come, by their names. `held` says why the children of before stay as they are, ""
    when they give way to these.
    """

    operator: str
    children: tuple[Object, ...]
    condition: str
    status: Object
    settled: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, int] = field(default_factory=dict)
    pod_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    held: str = ""

    @property
    def note(self) -> str:
        """What a person should know: who is missing, and what was done instead."""
        if self.held:
            return self.held
        return f"no {self.operator} runs here: the rehearsal made the pods that it would make, and nothing runs in them"


def child(api_version: str, kind: str, name: str, parent: Object, labels: dict[str, str], **rest: Any) -> Object:
    """A child of `parent`, in its namespace, with `labels` of its own."""
    metadata = {"name": name, "namespace": parent["metadata"]["namespace"], "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def labelled(template: Object, labels: dict[str, str]) -> Object:
    """The pod template with further labels."""
    return _marked(template, "labels", labels)


def annotated(template: Object, annotations: dict[str, str]) -> Object:
    """The pod template with further annotations."""
    return _marked(template, "annotations", annotations)


def _marked(template: Object, key: str, marks: dict[str, str]) -> Object:
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {**metadata, key: {**(metadata.get(key) or {}), **marks}}}


def with_environment(template: Object, variables: list[Object]) -> Object:
    """The pod template with `variables` in front of those of each of its containers."""
    spec = template["spec"]
    lists = {
        key: [{**each, "env": [*variables, *(each.get("env") or [])]} for each in spec[key]]
        for key in ("initContainers", "containers")
        if spec.get(key)
    }
    return {**template, "spec": {**spec, **lists}}


def digest(content: object) -> str:
    """Ten characters that change with `content`."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
