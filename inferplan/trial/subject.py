"""The subject of a trial, for every engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferplan.trial.questions import Question


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model `name` of a stack: its `spec`, the `container` of its server in the plan, the
    directory of its files, and the program of its engine on this computer. `objects` are those of
    the model in the plan by their type; `request` is one that clients send.
    """

    name: str
    spec: Any
    container: Mapping[str, Any]
    weights: Path
    program: str
    objects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    request: Question | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the container, without paths and addresses of the pod."""
        return {
            each["name"]: each["value"]
            for each in self.container["env"]
            if "/" not in each.get("value", "/")
        }
