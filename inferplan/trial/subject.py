"""The subject of a trial, for every engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferplan.trial.questions import Question

# The file of a subject with the configuration of Ray Serve.
SERVE_CONFIG = "serve.yaml"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model `name` of a stack: its `spec`, the `container` of its server in the plan, the
    directory of its files, and the program of its engine on this computer. `files` are those that
    the plan gives the server, by path; `request` is one that clients send.
    """

    name: str
    spec: Any
    container: Mapping[str, Any]
    weights: Path
    program: str
    files: Mapping[str, str] = field(default_factory=dict)
    request: Question | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the container, without paths and addresses of the pod."""
        return {
            each["name"]: each["value"]
            for each in self.container["env"]
            if "/" not in each.get("value", "/")
        }
