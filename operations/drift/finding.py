"""One difference between a live object and the stack: who made it, and what to type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kube.field_owners import Owner, manager_of
from kube.managed_fields import Writer
from kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from kube.paths import MISSING, Path, covers, parse, text_of
from operations.drift.visible import shown, visible
from operations.live import ObjectKey

Action = Literal["create", "reset", "apply", "contest", "leave", "remove"]
"""The effect of `inferplan up` on a difference; `apply` brings a change of the stack file, `contest` is undone by a scaler, `remove`
drops what kubectl added, because the update changes the same object."""

_SETTINGS: Final = {
    "model": (
        ("spec.replicas", "replicas"),
        ("spec.template.spec.containers[0].image", "image"),
        ("spec.template.spec.containers[0].env", "env"),
        ("spec.template.spec.containers[0].resources", "resources"),
        ("spec.template.spec.tolerations", "tolerations"),
        ("spec.template.spec.priorityClassName", "priorityClassName"),
        ("spec.template.spec.volumes", "volumes"),
        ("spec.template.metadata.labels", "labels"),
        ("spec.template.metadata.annotations", "annotations"),
    ),
    "gateway": (
        ("spec.replicas", "replicas"),
        ("spec.minReplicas", "replicas"),
        ("spec.maxReplicas", "autoscaling.maxReplicas"),
        ("spec.template.spec.containers[0].image", "image"),
        ("spec.rules", "host"),
        ("spec.ingressClassName", "ingressClassName"),
    ),
}
"""By component, paths of its objects and the stack file's fields that decide about them."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A difference at `path` of `key`, "" for a missing object. `live` and `ours` are MISSING where there is no value."""

    key: ObjectKey
    path: Path = ()
    live: Any = MISSING
    ours: Any = MISSING
    writer: Writer | None = None
    action: Action
    setting: str = ""
    """The field of the stack file that decides about it, "" if none is known."""
    variable: str = ""
    """The environment variable that the path leads into, "" if it leads elsewhere."""
    inputs: Any = field(default=None, repr=False)
    """The declared inputs, which mark secrets."""

    @property
    def place(self) -> str:
        """The path as text, "" for the object itself."""
        return text_of(self.path)

    def values(self) -> tuple[Any, Any]:
        """The live value and ours with free text and secrets hidden, None for a value that does not exist."""
        return visible(self.live, self.path, self.inputs), visible(self.ours, self.path, self.inputs)

    def sentence(self) -> str:
        """The difference in one sentence."""
        if not self.path:
            return "does not exist, and the stack declares it"
        live, ours = (shown(each) for each in self.values())
        declared = "does not declare it" if self.ours is MISSING else f"declares {ours}"
        return f"{self.place}{f' ({self.variable})' if self.variable else ''} is {live}, the stack {declared}"

    @property
    def author(self) -> str:
        """The author of the change and its time, as far as the cluster recorded them."""
        if self.writer is None:
            removed = self.live is MISSING
            return "not recorded: Kubernetes does not say who removes something" if removed else "not recorded: no field manager owns it"
        through = f" with subresource {self.writer.subresource}" if self.writer.subresource else ""
        when = f" at {self.writer.time}" if self.writer.time else ""
        return f"{self.writer.manager}{through}{when}"


def action_of(writer: Writer | None, live: Any, ours: Any) -> Action:
    """The effect of an update on a declared field that has another value."""
    owner = Owner.PEOPLE if writer is None else manager_of(writer.manager, writer.subresource)
    if owner is Owner.STACK:
        return "apply"
    return "contest" if owner is Owner.SCALER and MISSING not in (live, ours) else "reset"


def setting_of(labels: Mapping[str, str], path: Path) -> str:
    """The field of the stack file that decides about `path` of an object with `labels`, "" if none is known."""
    component, instance = labels.get(COMPONENT_LABEL, ""), labels.get(INSTANCE_LABEL, "")
    name = next((name for text, name in _SETTINGS.get(component, ()) if covers(parse(text), path)), "")
    if not name:
        return ""
    return f"models.{instance}.{name}" if component == "model" else f"{component}.{name}"
